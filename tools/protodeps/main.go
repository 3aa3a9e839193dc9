// Command protodeps writes the .proto sources that howdah's protos import
// (google/api/annotations.proto and what it needs) into a folder. It prints
// them from the descriptors of the pinned genproto module, so that buf needs
// no schema registry and no copy is kept in the repository.
package main

import (
	"fmt"
	"os"

	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protodeps DIR")
		os.Exit(2)
	}
	files := []protoreflect.FileDescriptor{annotations.File_google_api_annotations_proto, annotations.File_google_api_http_proto}
	if err := (&protoprint.Printer{}).PrintProtosToFileSystem(files, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "protodeps:", err)
		os.Exit(1)
	}
}
