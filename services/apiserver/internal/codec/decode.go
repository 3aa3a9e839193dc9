package codec

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metascheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/registry"
)

// maxDepth bounds the nesting of a JSON or YAML body. Decoders of Go, and so those of clients, give up at 10,000 levels: what is kept stays
// readable in managed fields, lists and events, too.
const maxDepth = 9_990

// errYAMLDepth is what a YAML body is refused with that nests too deep.
var errYAMLDepth = errors.New("yaml: exceeded max depth of 10000")

// unparsed begins the error of a JSON body of which not even the kind can be read.
const unparsed = "couldn't get version/kind; json parse error: "

// Validation is the fieldValidation option.
type Validation string

// The levels; the empty one is Warn.
const (
	Ignore Validation = "Ignore"
	Warn   Validation = "Warn"
	Strict Validation = "Strict"
)

// Body is a request's object.
type Body struct {
	Data        []byte
	ContentType string
	Validation  Validation
	// Offer says which encodings the body may be in.
	Offer Offer
	// Kind is set for an object of a custom kind, which is cut to its schema.
	Kind *registry.Kind
}

// MediaOf returns the encoding that a Content-Type names; empty is JSON.
func (o Offer) MediaOf(contentType string) (Media, bool) {
	switch contentType {
	case "", "application/json":
		return JSON, true
	case "application/vnd.kubernetes.protobuf":
		return Protobuf, true
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return JSON, false
	}
	switch media {
	case "application/json":
		return JSON, true
	case "application/yaml":
		return YAML, true
	case "application/vnd.kubernetes.protobuf":
		return Protobuf, true
	case "application/cbor":
		return CBOR, o.CBOR
	}
	return JSON, false
}

// Takes fails with 415 where bodies may not be in the encoding that a Content-Type names.
func (o Offer) Takes(contentType string) error {
	if _, ok := o.MediaOf(contentType); !ok {
		return UnsupportedMedia(o.accepted())
	}
	return nil
}

// Into decodes the body into an empty object of the wanted kind. A body that names no kind is taken for the
// wanted one; one that names another fails with 400. It returns the warnings about unknown and duplicate fields, or fails
// with them when validation is strict.
func (b Body) Into(obj runtime.Object, want schema.GroupVersionKind) (warnings []string, err error) {
	if err := b.Offer.Takes(b.ContentType); err != nil {
		return nil, err
	}
	switch media, _ := b.Offer.MediaOf(b.ContentType); media {
	case Protobuf:
		return nil, b.protobuf(obj, want)
	case YAML:
		return b.yaml(obj, want)
	case CBOR:
		return b.cbor(obj, want)
	}
	return b.json(b.Data, obj, want, nil)
}

func (b Body) protobuf(obj runtime.Object, want schema.GroupVersionKind) error {
	e, err := open(b.Data)
	switch {
	case len(b.Data) == 0:
		err = errNoData
	case len(b.Data) == len(magic) && err == nil:
		err = errNoBody
	}
	if err != nil {
		return unrecognized(b.Data, want, err)
	}
	if err := e.check(want); err != nil {
		return err
	}
	m, ok := obj.(message)
	if !ok {
		return UnsupportedMedia("application/json, application/yaml")
	}
	err = m.Unmarshal(e.raw)
	if err == nil {
		err = checkEmbedded(obj)
	}
	if err != nil {
		return badBody(want, want, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(want)
	return nil
}

func (b Body) yaml(obj runtime.Object, want schema.GroupVersionKind) ([]string, error) {
	if err := yamlDepth(b.Data); err != nil {
		return nil, unrecognized(b.Data, want, err)
	}
	var duplicates []error
	if b.Validation != Ignore {
		if err := yamlDuplicates(b.Data); err != nil {
			duplicates = append(duplicates, err)
		}
	}
	data, err := yaml.YAMLToJSON(b.Data)
	if err != nil {
		return nil, unrecognized(b.Data, want, err)
	}
	return b.json(data, obj, want, duplicates)
}

func (b Body) json(data []byte, obj runtime.Object, want schema.GroupVersionKind, strict []error) ([]string, error) {
	if err := jsonDepth(data); err != nil {
		return nil, unrecognized(b.Data, want, errors.New(unparsed+err.Error()))
	}
	repeated := strict
	var err error
	if u, ok := obj.(*unstructured.Unstructured); ok {
		var more []error
		more, err = decodeMap(data, u, b.Validation != Ignore)
		strict = append(strict, more...)
	} else if b.Validation == Ignore {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, obj)
	} else {
		var more []error
		more, err = kjson.UnmarshalStrict(data, obj)
		strict = append(strict, more...)
	}
	got := obj.GetObjectKind().GroupVersionKind()
	if err != nil || !b.takes(got, want) || (got.Version == "" || got.Kind == "") && !interpretable(data, want) {
		if other := b.sibling(data, want); other != nil {
			return b.otherVersion(data, other, want, repeated)
		}
		return nil, refusal(b.Data, data, want, obj, b.Validation, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(want)
	more, err := fit(b.Kind, obj, b.Validation != Ignore)
	if err != nil {
		return nil, badBody(want, want, err)
	}
	return strictness(b.Validation, append(strict, more...), want)
}

// strictness turns problems of a decoding into warnings or, where validation is strict, an error.
func strictness(level Validation, problems []error, want schema.GroupVersionKind) ([]string, error) {
	if len(problems) == 0 || level == Ignore {
		return nil, nil
	}
	if level == Strict {
		return nil, badBody(want, want, runtime.NewStrictDecodingError(problems))
	}
	return Warnings(problems), nil
}

// badBody is the 400 of a body that says it is got and is not the wanted kind.
func badBody(got, want schema.GroupVersionKind, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind, got.Version, want.Kind, err))
}

// yamlDuplicates returns an error of several lines that names the fields which occur twice; nil: there are none.
func yamlDuplicates(data []byte) error {
	var discard any
	err := yaml.UnmarshalStrict(data, &discard)
	if err == nil {
		return nil
	}
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if strings.Contains(line, "already set in map") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return errors.New(yamlProblems + strings.Join(lines, "\n"))
}

// yamlProblems begins the error that lists what is wrong with a YAML text, each problem a line of its own.
const yamlProblems = "yaml: unmarshal errors:\n"

// Warnings turns problems of a decoding into the texts of warnings.
func Warnings(problems []error) []string {
	var texts []string
	for _, p := range problems {
		if lines, ok := strings.CutPrefix(p.Error(), yamlProblems); ok {
			for line := range strings.SplitSeq(lines, "\n") {
				texts = append(texts, strings.TrimSpace(line))
			}
			continue
		}
		texts = append(texts, p.Error())
	}
	return texts
}

// interpretable reports whether a body that seems to leave its version out has none that is malformed.
// The kind and version are found whatever the case of their fields' names is.
func interpretable(data []byte, want schema.GroupVersionKind) bool {
	got, err := kubejson.DefaultMetaFactory.Interpret(data)
	return err == nil && (got.Kind == "" || got.Kind == want.Kind) && (got.Version == "" || got.GroupVersion() == want.GroupVersion())
}

// takes reports whether a body that says it is got may be of the wanted kind. One of a built-in kind need not say it.
func (b Body) takes(got, want schema.GroupVersionKind) bool {
	if got == want {
		return true
	}
	if b.Kind != nil && b.Kind.Custom != nil {
		return false
	}
	return (got.Kind == "" || got.Kind == want.Kind) && (got.Version == "" && got.Group == "" || got.GroupVersion() == want.GroupVersion())
}

// jsonDepth fails where brackets nest deeper than maxDepth; it does not otherwise check the syntax.
func jsonDepth(data []byte) error {
	depth, inString, escaped := 0, false, false
	for _, c := range data {
		switch {
		case escaped:
			escaped = false
		case inString:
			switch c {
			case '\\':
				escaped = true
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("invalid character %q exceeded max depth", c)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// yamlDepth bounds flow nesting by brackets and block nesting by indentation, before the parser recurses.
func yamlDepth(data []byte) error {
	if jsonDepth(data) != nil {
		return errYAMLDepth
	}
	for line := range bytes.Lines(data) {
		if indent := len(line) - len(bytes.TrimLeft(line, " -")); indent > 2*maxDepth {
			return errYAMLDepth
		}
	}
	return nil
}

// Options decodes a body of options, as metav1.DeleteOptions, whose apiVersion may be that of any group.
func (o Offer) Options(body []byte, contentType string, into runtime.Object) error {
	media, ok := o.MediaOf(contentType)
	if !ok {
		return UnsupportedMedia(o.accepted())
	}
	var err error
	switch media {
	case Protobuf:
		if _, ok := into.(message); !ok {
			return UnsupportedMedia("application/json")
		}
		err = optionsProtobuf(body, into)
	case YAML:
		if err = yamlDepth(body); err == nil {
			if body, err = yaml.YAMLToJSON(body); err == nil {
				err = optionsJSON(body, into)
			}
		}
	case CBOR:
		err = optionsCBOR(body, into)
	default:
		if err = jsonDepth(body); err != nil {
			err = errors.New(unparsed + err.Error())
		} else {
			err = optionsJSON(body, into)
		}
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// optionsJSON decodes options, of whatever version they say they are, but of no other kind.
func optionsJSON(body []byte, into runtime.Object) error {
	got, err := kubejson.DefaultMetaFactory.Interpret(body)
	if err != nil {
		return err
	}
	said, err := optionsKind(*got, into)
	if err != nil {
		return err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, said); err != nil {
		return err
	}
	return isOptions(said, into)
}

// optionsProtobuf is optionsJSON of an envelope.
func optionsProtobuf(body []byte, into runtime.Object) error {
	e, err := open(body)
	if err != nil {
		return err
	}
	if len(body) == len(magic) {
		return errNoBody
	}
	said, err := optionsKind(schema.FromAPIVersionAndKind(e.apiVersion, e.kind), into)
	if err != nil {
		return err
	}
	if m, ok := said.(message); ok {
		if err := m.Unmarshal(e.raw); err != nil {
			return err
		}
	}
	return isOptions(said, into)
}

// optionsKind returns what options are decoded into that say they are got: themselves, whatever version that is, or another of the kinds that are known
// beside options. It refuses what is not known.
func optionsKind(got schema.GroupVersionKind, into runtime.Object) (runtime.Object, error) {
	if got.Kind == "" || got.Kind == reflect.TypeOf(into).Elem().Name() {
		return into, nil
	}
	if got.Version == "" {
		got.Group, got.Version = metav1.GroupName, "v1"
	}
	other, err := metascheme.Scheme.New(got)
	if err != nil {
		return nil, runtime.NewNotRegisteredErrForKind(schemeName, got)
	}
	return other, nil
}

// isOptions refuses what was decoded, but is not of the kind that is wanted.
func isOptions(said, into runtime.Object) error {
	if said == into {
		return nil
	}
	return fmt.Errorf("converting (%s) to (%s): unknown conversion", reflect.TypeOf(said).Elem(), reflect.TypeOf(into).Elem())
}
