package document

import (
	"howdah.dev/kit/recent"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/compress"
)

// maxPacked bounds the compressed documents that are kept, in bytes; recent.Map may hold twice as much. All of Kubernetes' own take 2 MB.
const maxPacked = 8 << 20

// packed keeps compressed documents: they change seldom, and compressing one costs several times what all else of an answer does.
type packed struct{ kept recent.Map[string, []byte] }

func newPacked() *packed {
	return &packed{recent.Map[string, []byte]{Size: func(b []byte) int { return len(b) }, MaxSize: maxPacked}}
}

// nameOf names what an answer says in its encoding; empty where that has no name.
func nameOf(resp *apiv1.DocumentResponse) string {
	if resp.GetEtag() == "" {
		return ""
	}
	return resp.GetEtag() + resp.GetContentType() // some have one ETag for all encodings
}

// of returns the body compressed; name is that of what it says in its encoding, and empty where it has none.
func (p *packed) of(body []byte, name string) []byte {
	if name == "" {
		return compress.Packed(body)
	}
	if known, ok := p.kept.Get(name); ok {
		return known
	}
	made := compress.Packed(body)
	p.kept.Put(name, made)
	return made
}
