package nodelog

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestQuestionsThatAreWrong(t *testing.T) {
	t.Parallel()
	there := func(file string) error {
		if file != "a/b.log" {
			return fs.ErrNotExist
		}
		return nil
	}
	for raw, want := range map[string]string{
		"query=kubelet":           "",
		"query=a@b.service:c_d-e": "",
		"query=a&query=b&tailLines=5&boot=-1&pattern=x%2By&sinceTime=2026-01-01T00:00:00Z&untilTime=2026-01-01T00:00:00Z": "",
		"query=/a/b.log":                          "",
		`query=a\b.log`:                           "",
		"query=a&tailLines=0&boot=0":              "",
		"query=":                                  `query: Invalid value: [""]: may not be empty`,
		"query=+++&tailLines=1":                   `query: Invalid value: ["   "]: may not be empty`,
		"tailLines=1":                             "query: Required value: cannot be empty with options",
		"query=a&sinceTime=yesterday":             `sinceTime: Invalid value: "yesterday": invalid time format`,
		"query=a&untilTime=1":                     `untilTime: Invalid value: "1": invalid time format`,
		"query=a&boot=x":                          `boot: Invalid value: "x": strconv.Atoi: parsing "x": invalid syntax`,
		"query=a&tailLines=x":                     `tailLines: Invalid value: "x": strconv.Atoi: parsing "x": invalid syntax`,
		"query=a%3Bb":                             `query: Invalid value: "a;b": input contains unsupported characters`,
		"query=" + strings.Repeat("a", 257):       `query: Invalid value: "` + strings.Repeat("a", 257) + `": length must be less than 256`,
		"query=a&query=b&query=c&query=d&query=e": "query: Too many: 5: must have at most 4 items",
		"query=a&query=/b":                        `query: Invalid value: "[/b], [a]": cannot specify a file and service`,
		"query=/a&query=/b":                       `query: Invalid value: ["/a","/b"]: cannot specify more than one file`,
		"query=/a/b.log&boot=0":                   `query: Invalid value: ["/a/b.log"]: cannot specify file with options`,
		"query=/c":                                `query: Invalid value: ["/c"]: file does not exist`,
		"query=a&boot=1":                          `boot: Invalid value: 1: must be less than 1`,
		"query=a&tailLines=-1":                    `tailLines: Invalid value: -1: must be between 0 and 100000, inclusive`,
		"query=a&tailLines=100001":                `tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive`,
		"query=a&pattern=%5B":                     "pattern: Invalid value: \"[\": error parsing regexp: missing closing ]: `[`",
		"query=a&sinceTime=2026-01-02T00:00:00Z&untilTime=2026-01-01T00:00:00Z": "untilTime: Invalid value: \"2026-01-01T00:00:00Z\": must be after `sinceTime`",
	} {
		values, err := url.ParseQuery(raw)
		if err != nil {
			t.Fatal(err)
		}
		q, errs := Parse(values)
		if q != nil {
			errs = q.Check(there)
		}
		said := ""
		if err := errs.ToAggregate(); err != nil {
			said = err.Error()
		}
		if said != want {
			t.Errorf("%s: %s\nwant %s", raw, said, want)
		}
	}
	if q, errs := Parse(url.Values{"other": {"x"}}); q != nil || errs != nil {
		t.Errorf("nothing is asked: %v, %v", q, errs)
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, content := range map[string]string{"plain": "of plain", "web.log": "of web", "db/db.log": "of db", "both": "a file", "both.log": "another"} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	var asked []string
	journal := func(_ context.Context, to io.Writer, arguments ...string) error {
		if slices.Equal(arguments, []string{"--field=_SYSTEMD_UNIT"}) {
			_, err := io.WriteString(to, "kubelet.service\nx-containerd.service\ncron.timer\n")
			return err
		}
		asked = arguments
		_, err := io.WriteString(to, "journal\n")
		return err
	}
	without := func(context.Context, io.Writer, ...string) error { return errors.New("there is no journalctl") }
	for name, c := range map[string]struct {
		query   string
		journal Journal
		asked   string
		says    string
	}{
		"a unit": {"query=kubelet", journal, "--utc --no-pager --output=short-precise --unit=kubelet", "journal\n"},
		"options": {"query=kubelet&query=cron.timer&sinceTime=1970-01-01T01:00:10%2B01:00&untilTime=1970-01-01T00:00:20Z&tailLines=3&pattern=a b&boot=-1", journal,
			"--utc --no-pager --output=short-precise --since=@10 --until=@20 --lines=3 --unit=kubelet --unit=cron.timer --grep=a b --boot=-1", "journal\n"},
		"a part of a unit's name is none": {"query=containerd", journal, "", "\nlog not found for containerd\n"},
		"both":                            {"query=kubelet&query=web", journal, "--utc --no-pager --output=short-precise --unit=kubelet", "journal\nof web"},
		"a file":                          {"query=plain", without, "", "of plain"},
		"a file of that name first":       {"query=both", without, "", "a file"},
		"in a folder":                     {"query=db", without, "", "of db"},
		"a file with options":             {"query=db&tailLines=1", without, "", "\noptions present and query resolved to log files for [db]\ntry without specifying options\n"},
		"no file":                         {"query=kubelet", without, "", "\nlog not found for kubelet\n"},
		"a link out of the folder":        {"query=out", without, "", "\nerror getting log for out: statat out: path escapes from parent\n"},
		"above the folder":                {"query=..", without, "", "\nerror getting log for ..: statat ..: path escapes from parent\n"},
	} {
		asked = nil
		values, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		q, errs := Parse(values)
		if len(errs) > 0 || len(q.Check(nil)) > 0 {
			t.Fatal(name, errs)
		}
		var out strings.Builder
		q.Show(t.Context(), &out, c.journal, dir)
		if out.String() != c.says || strings.Join(asked, " ") != c.asked {
			t.Errorf("%s: %q, want %q; asked %q, want %q", name, out.String(), c.says, strings.Join(asked, " "), c.asked)
		}
	}
}
