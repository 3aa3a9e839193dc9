package credential

import (
	"errors"
	"net"
	"net/url"
	"path"
	"strings"
)

// pattern matches images: each part of its host by itself, with wildcards, its port, and the beginning of its path.
type pattern struct {
	parts      []string
	port, path string
}

func parsePattern(text string) (pattern, error) {
	u, err := url.Parse("https://" + text)
	if err != nil {
		return pattern{}, err
	}
	if u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return pattern{}, errors.New("it is not HOST[:PORT][/PATH]")
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		host, port = u.Host, ""
	}
	p := pattern{strings.Split(host, "."), port, u.Path}
	for _, part := range p.parts {
		if _, err := path.Match(part, ""); err != nil {
			return pattern{}, err
		}
	}
	return p, nil
}

// matches reports whether the pattern is one of the image, whose name is in full.
func (p pattern) matches(image string) bool {
	of, err := parsePattern(image)
	if err != nil || p.port != of.port || len(p.parts) != len(of.parts) || !strings.HasPrefix(of.path, p.path) {
		return false
	}
	for i, part := range p.parts {
		if ok, err := path.Match(part, of.parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// bare is a server without its scheme.
func bare(server string) string {
	return strings.TrimPrefix(strings.TrimPrefix(server, "https://"), "http://")
}

// matchesKey does the same for a key of an answer, which may be written as Docker writes servers.
func matchesKey(key, image string) bool {
	p, err := parsePattern(bare(key))
	if err != nil {
		return false
	}
	for _, version := range []string{"/v1/", "/v2/"} {
		if rest, ok := strings.CutPrefix(p.path, version); ok {
			p.path = "/" + rest
		}
	}
	if p.path == "/" {
		p.path = ""
	}
	if strings.Join(p.parts, ".") == "index.docker.io" {
		p.parts = []string{"docker", "io"}
	}
	return p.matches(image)
}
