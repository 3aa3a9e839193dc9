// Package console tests the web console in a browser, against a standalone whose gateway serves it.
package console
