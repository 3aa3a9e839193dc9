// Package e2e tests a running cluster as its users meet it: with the real
// kubectl, curl from pods, and the containers of the compose file.
package e2e
