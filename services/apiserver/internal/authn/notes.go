package authn

import "context"

// Notes are what the audit log is to be told of the credentials of a request, good or not.
type Notes []Note

// Note is an annotation of an audit event.
type Note struct{ Key, Value string }

type notesKey struct{}

// WithNotes returns a context with which credentials are to be looked at, and where what is noted of them will be.
func WithNotes(ctx context.Context) (context.Context, *Notes) {
	notes := &Notes{}
	return context.WithValue(ctx, notesKey{}, notes), notes
}

// Remark notes something, where anybody wants to know.
func Remark(ctx context.Context, key, value string) {
	if notes, ok := ctx.Value(notesKey{}).(*Notes); ok {
		*notes = append(*notes, Note{key, value})
	}
}

// Tell tells all.
func (n Notes) Tell(tell func(key, value string)) {
	for _, note := range n {
		tell(note.Key, note.Value)
	}
}
