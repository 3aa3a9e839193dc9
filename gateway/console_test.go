package gateway_test

import (
	"net/http"
	"testing"

	"howdah.dev/gateway"
)

func TestConsoleIsServedToAnybodyWhereItIsOn(t *testing.T) {
	t.Parallel()
	c := setup(t, func(config *gateway.Config) { config.Console = &gateway.Console{} })
	nobody := c.client("")
	if got := c.do(nobody, "GET", "/console/", ""); got.StatusCode != http.StatusOK || got.Header.Get("Content-Security-Policy") == "" || got.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%s %v", got.Status, got.Header)
	}
	if got := c.do(nobody, "GET", "/console/", "", "Authorization: Bearer bad"); got.StatusCode != http.StatusOK {
		t.Errorf("with a bad token: %s", got.Status)
	}
	if got := c.do(nobody, "POST", "/console/", ""); got.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", got.Status)
	}
	if got := c.do(c.client("admin"), "POST", "/api/v1/namespaces/default/pods", "{}", "Sec-Fetch-Site: cross-site"); got.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site: %s", got.Status)
	}
	off := setup(t)
	if got := off.do(off.client("admin"), "GET", "/console/", ""); got.StatusCode != http.StatusNotFound {
		t.Errorf("where it is off: %s", got.Status)
	}
}
