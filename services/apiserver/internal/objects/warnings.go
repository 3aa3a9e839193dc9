package objects

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// As Kubernetes: all warnings whole where they are no more than maxWarnings runes together, else cut to maxWarning each.
const (
	maxWarnings = 4096
	maxWarning  = 256
)

// header sends the warnings of a request, once.
func (r *request) header(ctx context.Context) {
	if len(r.warnings) == 0 {
		return
	}
	md := metadata.MD{}
	texts, key := fitting(r.warnings), "warning"
	if slices.ContainsFunc(texts, beyondASCII) {
		key = "warning-bin" // other metadata may hold ASCII alone
	}
	md.Append(key, texts...)
	r.warnings = nil
	// It fails only where headers have gone out, or where there is no call, as in bootstrap.
	_ = grpc.SetHeader(ctx, md)
}

// fitting makes texts fit for headers. Those with control characters, and empty ones, are left out.
func fitting(texts []string) []string {
	kept := make([]string, 0, len(texts))
	total := 0
	for _, text := range texts {
		if text == "" || strings.IndexFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) >= 0 {
			continue
		}
		kept = append(kept, strings.ToValidUTF8(text, "?"))
		total += utf8.RuneCountInString(text)
	}
	if total <= maxWarnings {
		return kept
	}
	total = 0
	for i, text := range kept {
		runes := []rune(text)
		runes = runes[:min(len(runes), maxWarning)]
		if total += len(runes); total > maxWarnings {
			return kept[:i]
		}
		kept[i] = string(runes)
	}
	return kept
}

func beyondASCII(text string) bool {
	return strings.IndexFunc(text, func(c rune) bool { return c > '~' }) >= 0
}

// Warn implements admission.Notes.
func (r *request) Warn(text string) { r.warn(text) }

// Annotate implements admission.Notes.
func (r *request) Annotate(key, value string) {
	if r.annotations == nil {
		r.annotations = map[string]string{}
	}
	r.annotations[key] = value
}

// noted takes over what a part of the request was told: its warnings, and annotations that the request has not yet.
func (r *request) noted(part *request) {
	for _, text := range part.warnings {
		r.warn(text)
	}
	for key, value := range part.annotations {
		if _, there := r.annotations[key]; !there {
			r.Annotate(key, value)
		}
	}
}

// warn adds a warning, once.
func (r *request) warn(text string) {
	if len(r.warnings) < 64 && !slices.Contains(r.warnings, text) {
		r.warnings = append(r.warnings, text)
	}
}
