package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Case is a conversation with a server in a namespace of its own, $NS.
type Case struct {
	// Name is the file's path below cases/, without its ending.
	Name string `json:"-"`
	// About says in a sentence what the case is for.
	About string `json:"about"`
	Steps []Step `json:"steps"`

	path string
}

// Step is a request, and what of its answer counts. In every text, $NS stands for the case's namespace, and $X for what
// an earlier step saved as X.
type Step struct {
	// Do is the method and the URL from the path on.
	Do string `json:"do"`
	// Headers are sent. Where Authorization is one of them, the administrator's certificate is not shown; empty, it is nobody's.
	Headers map[string]string `json:"headers,omitempty"`
	// Body is sent as JSON, or, if it is a string, as it is.
	Body any `json:"body,omitempty"`
	// Pad sends so many bytes of nothing in particular as the body.
	Pad int `json:"pad,omitempty"`
	// Show names further response headers that count; Content-Type and Warning always do.
	Show []string `json:"show,omitempty"`
	// Save keeps values of the answer, by paths as in metadata.resourceVersion or items.0.metadata.name.
	Save map[string]string `json:"save,omitempty"`
	// Only names the paths of the body that count; none means all.
	Only []string `json:"only,omitempty"`
	// Without names paths of the body that do not count. A * stands for every index or key.
	Without []string `json:"without,omitempty"`
	// Watch reads so many lines of JSON, or fewer if the stream ends before, instead of a whole body.
	Watch int `json:"watch,omitempty"`
	// Until repeats the request until its answer has this code, for at most 30 s: for what others do meanwhile.
	Until int `json:"until,omitempty"`
	// Unlike says why howdah answers otherwise here; such an answer is recorded, and not compared.
	Unlike string `json:"unlike,omitempty"`
}

// Answer is what counts of a response.
type Answer struct {
	Do      string            `json:"do"`
	Code    int               `json:"code"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    any               `json:"body,omitempty"`
}

// ReadCases returns the cases below dir, by name.
func ReadCases(dir string) ([]Case, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*.yaml"))
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, path := range paths {
		if strings.HasSuffix(path, goldenEnding) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		c := Case{path: path}
		if err := yaml.UnmarshalStrict(text, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return nil, err
		}
		c.Name = strings.TrimSuffix(filepath.ToSlash(relative), ".yaml")
		cases = append(cases, c)
	}
	return cases, nil
}

const goldenEnding = ".golden.yaml"

func (c *Case) goldenPath() string { return strings.TrimSuffix(c.path, ".yaml") + goldenEnding }

// Golden returns the recorded answers.
func (c *Case) Golden() ([]Answer, error) {
	text, err := os.ReadFile(c.goldenPath())
	if err != nil {
		return nil, err
	}
	var answers []Answer
	if err := yaml.UnmarshalStrict(text, &answers); err != nil {
		return nil, err
	}
	for i := range answers { // as they were recorded, what is normal may have been less
		answers[i].Body = normal(answers[i].Body, nil)
	}
	return answers, nil
}

// Record writes the answers as the golden ones.
func (c *Case) Record(answers []Answer) error {
	text, err := yaml.Marshal(answers)
	if err != nil {
		return err
	}
	return os.WriteFile(c.goldenPath(), text, 0o644)
}
