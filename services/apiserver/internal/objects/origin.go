package objects

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// maxProgram bounds what the history keeps of a user agent.
const maxProgram = 128

// origin tells how a write is made, as store.Write.Origin wants it: the verb, with its subresource, the field manager and the program.
func (r *request) origin() string {
	verb := r.verb
	if r.applies {
		verb = "apply"
	}
	if r.subresource != "" {
		verb += "/" + r.subresource
	}
	program, _, _ := strings.Cut(r.agent, " ")
	program = program[:min(len(program), maxProgram)]
	return plainField(verb) + "\t" + plainField(r.manager(r.managerName)) + "\t" + plainField(program)
}

// plainField keeps a text from being taken for two fields.
func plainField(text string) string {
	if strings.IndexByte(text, '\t') < 0 {
		return text
	}
	return strings.ReplaceAll(text, "\t", " ")
}

// overlay is what the items of an atomic batch that come before the present one will have done, by key; nil: deleted. It
// makes the state that the later ones are planned against.
type overlay map[string]*codec.Item

type overlayKey struct{}

func withOverlay(ctx context.Context, o overlay) context.Context {
	return context.WithValue(ctx, overlayKey{}, o)
}

// lookUp answers what the batch has done to a key; known is false where it has not touched it.
func lookUp(ctx context.Context, kind *registry.Kind, key, name string) (item *codec.Item, known bool, err error) {
	o, ok := ctx.Value(overlayKey{}).(overlay)
	if !ok {
		return nil, false, nil
	}
	item, known = o[key]
	if known && item == nil {
		err = apierrors.NewNotFound(kind.GroupResource(), name)
	}
	return item, known, err
}
