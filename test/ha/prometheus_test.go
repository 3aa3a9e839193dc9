package ha

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

// fetch asks Prometheus, and answers the JSON that it says.
func fetch(query string) (string, error) {
	c := http.Client{Timeout: 10 * time.Second}
	r, err := c.Get(os.Getenv("HOWDAH_PROMETHEUS_URL") + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", r.Status)
	}
	return string(body), err
}
