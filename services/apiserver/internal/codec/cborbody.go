package codec

import (
	"errors"
	"math"
	"reflect"
	"sync"

	wire "github.com/fxamacker/cbor/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// cbor decodes a body in CBOR by the rules of Kubernetes' library, and with its texts: of fields that a built-in kind does not have the first is told, by
// its place in its map, and a field that occurs twice is an error.
func (b Body) cbor(obj runtime.Object, want schema.GroupVersionKind) ([]string, error) {
	got, err := readCBOR(b.Data, obj, want, b.Validation != Ignore)
	unknown, strict := runtime.AsStrictDecodingError(err)
	switch {
	case err != nil && !strict && (got == nil || got.Kind == ""):
		return nil, unrecognized(b.Data, want, err)
	case err != nil && !strict:
		return nil, badBody(*got, want, err)
	}
	var problems []error
	if strict {
		problems = unknown.Errors()
	}
	if *got != want {
		return b.otherCBOR(*got, want, obj, problems)
	}
	obj.GetObjectKind().SetGroupVersionKind(want)
	if _, err := fit(b.Kind, obj, false); err != nil { // fields that a custom kind does not have are not told
		return nil, badBody(want, want, err)
	}
	return strictness(b.Validation, problems, want)
}

// otherCBOR refuses a body that was read as the kind that it says it is of.
func (b Body) otherCBOR(got, want schema.GroupVersionKind, obj runtime.Object, problems []error) ([]string, error) {
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		return nil, customRefusal(b.Data, nil, got, want, custom, b.Validation, nil)
	}
	if b.Kind == nil || b.Kind.VersionOf(got) == nil {
		return nil, otherKind(got, want)
	}
	if len(problems) > 0 && b.Validation == Strict {
		return nil, badBody(got, want, runtime.NewStrictDecodingError(problems))
	}
	return Warnings(problems), otherVersion(got, want)
}

// readCBOR decodes a body into obj, if it is of the wanted kind, and returns the kind that it says it is of; nil: that cannot be told. What it leaves
// out is taken for what is wanted, but of custom objects. With strict an error may be that of an unknown field, and obj is complete all the same.
func readCBOR(body []byte, obj runtime.Object, want schema.GroupVersionKind, strict bool) (*schema.GroupVersionKind, error) {
	if err := cborDepth(body); err != nil {
		return nil, err
	}
	known := cborKinds{want}
	_, got, err := cbor.NewSerializer(known, known, cbor.Strict(strict)).Decode(body, &want, obj)
	return got, err
}

// cborKinds tells the library that what it decodes into is of the wanted kind, and which kinds are known beside it.
type cborKinds struct{ want schema.GroupVersionKind }

// ObjectKinds implements runtime.ObjectTyper.
func (k cborKinds) ObjectKinds(runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{k.want}, false, nil
}

// Recognizes implements runtime.ObjectTyper.
func (k cborKinds) Recognizes(gvk schema.GroupVersionKind) bool { return gvk == k.want }

// New implements runtime.ObjectCreater.
func (k cborKinds) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	obj, err := knownBeside(k.want).New(gvk)
	if err != nil {
		return nil, runtime.NewNotRegisteredErrForKind(schemeName, gvk)
	}
	return obj, nil
}

// optionsCBOR decodes options. Fields that options do not have are passed over.
func optionsCBOR(body []byte, into runtime.Object) error {
	if err := cborDepth(body); err != nil {
		return err
	}
	kinds := optionKinds{into}
	said, _, err := cbor.NewSerializer(kinds, kinds).Decode(body, nil, into)
	if err != nil {
		return err
	}
	return isOptions(said, into)
}

// optionKinds tells the library to decode into the options whatever version they say they are of, and which kinds are known beside them.
type optionKinds struct{ into runtime.Object }

// ObjectKinds implements runtime.ObjectTyper.
func (k optionKinds) ObjectKinds(runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	kind := reflect.TypeOf(k.into).Elem().Name()
	return []schema.GroupVersionKind{{Group: metav1.GroupName, Version: "v1", Kind: kind}}, false, nil
}

// Recognizes implements runtime.ObjectTyper.
func (k optionKinds) Recognizes(gvk schema.GroupVersionKind) bool {
	_, err := optionsKind(gvk, k.into)
	return err == nil
}

// New implements runtime.ObjectCreater.
func (k optionKinds) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return optionsKind(gvk, k.into)
}

// configurationCBOR decodes what a server-side apply brings.
func configurationCBOR(body []byte) (map[string]any, error) {
	if err := cborDepth(body); err != nil {
		return nil, err
	}
	object := map[string]any{}
	return object, direct.Unmarshal(body, &object)
}

// cborDepth fails where items nest deeper than maxDepth. What else is wrong is left to those who decode.
func cborDepth(body []byte) error {
	var deep *wire.MaxNestedLevelError
	if err := bounded().Wellformed(body); errors.As(err, &deep) {
		return err
	}
	return nil
}

// bounded bounds the depth alone: how long a body may be is bounded elsewhere.
var bounded = sync.OnceValue(func() wire.DecMode {
	mode, err := wire.DecOptions{MaxNestedLevels: maxDepth, MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return mode
})
