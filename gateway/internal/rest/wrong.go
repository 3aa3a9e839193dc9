package rest

import (
	"encoding/json"

	"google.golang.org/grpc/metadata"

	"howdah.dev/kit/apistatus"
)

// WrongKey is the metadata that brings the API server the Status by which it is to refuse a request whose options cannot be read. It does so
// once it knows that the caller may make the request, and that an answer can be given in a form that the client takes.
const WrongKey = "howdah-wrong-options-bin"

// UnreadKey is the metadata that brings the API server the Status of a body that could not be read. It refuses the request by it where it would
// read the body.
const UnreadKey = "howdah-unread-body-bin"

// unreadBody stands for a body that could not be read. It is none in any encoding, so that an API server that does not know UnreadKey refuses it
// too: an empty one would delete a collection as if nothing more had been asked.
const unreadBody = "\x00"

// withRefusal returns md with what the API server is to refuse a request by, under a key that says when.
func withRefusal(md metadata.MD, key string, wrong error) metadata.MD {
	text, _ := json.Marshal(apistatus.Of(wrong)) // a Status holds nothing that JSON cannot
	md = md.Copy()
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(key, string(text))
	return md
}
