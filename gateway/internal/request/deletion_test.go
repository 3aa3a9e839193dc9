package request

import (
	"net/url"
	"testing"
)

func TestDeleteOptions(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"":                             "",
		"dryRun=All":                   "",
		"propagationPolicy=Orphan":     "",
		"propagationPolicy=":           `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":""}`,
		"uid=a":                        `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"a"}}`,
		"resourceVersion=1&dryRun=All": `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"resourceVersion":"1"},"dryRun":["All"]}`,
		"uid=&gracePeriodSeconds=3&orphanDependents=0": `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":3,"preconditions":{"uid":""},"orphanDependents":false}`,
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Info{Verb: Delete}.DeleteOptions(values)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", query, got, err, want)
		}
		if got, err := (Info{Verb: Create}).DeleteOptions(values); got != nil || err != nil {
			t.Errorf("%s of a create: %s %v", query, got, err)
		}
	}
	if _, err := (Info{Verb: Delete}).DeleteOptions(url.Values{"gracePeriodSeconds": {""}}); err == nil {
		t.Error("no number is a number of seconds")
	}
}

func TestWatchesHaveNoPages(t *testing.T) {
	t.Parallel()
	for query, refused := range map[string]bool{
		"continue=x": true, "continue=x&resourceVersion=0": true, "continue=x&resourceVersion=5": false, "continue=": false,
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (Info{Verb: Watch}).Options(values, nil); (err != nil) != refused {
			t.Errorf("%s: %v", query, err)
		}
	}
}
