package custom

import (
	"math"
	"reflect"
	"regexp"
	"slices"
	"unicode/utf8"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"howdah.dev/services/apiserver/internal/plain"
)

// doubts say what a library has to look at an object for. Without a doubt it would change nothing and find nothing wrong.
type doubts uint8

const (
	// unpruned: there may be unknown fields, nulls where none are allowed, or what is read in another way than it was written.
	unpruned doubts = 1 << iota
	// undefaulted: a field that has a default may be missing.
	undefaulted
	// unsound: a value may not be what the schema allows, or a list with keys may have one twice.
	unsound

	all = unpruned | undefaulted | unsound
)

// maxPairs is how long a list with keys may be whose items are compared two by two.
const maxPairs = 64

// shape is a structural schema, made ready to tell in one walk that all is well with an object, as it is nearly always: the libraries take a walk
// for each of pruning, nulls, coercion, defaults, validation and lists, and some a dozen allocations a value. What is unusual in a schema
// is a doubt wherever it applies.
type shape struct {
	of       string // the type
	nullable bool
	// open keeps unknown fields.
	open     bool
	fields   map[string]*shape
	values   *shape // of unknown fields, or of items
	defaults []string
	required []string
	// hard is what nobody but a library checks.
	hard doubts

	enum       []any
	pattern    *regexp.Regexp
	format     string
	min, max   *float64
	over, less bool // exclusive bounds
	shortest   *int64
	longest    *int64
	set        bool
	keys       []string
}

// newShape returns the shape of a schema; root is that of a whole object.
func newShape(s *structuralschema.Structural, root bool) *shape {
	out := &shape{of: s.Type, nullable: s.Nullable, open: s.XPreserveUnknownFields}
	if s.XEmbeddedResource {
		return &shape{of: "any", hard: all}
	}
	if s.XIntOrString {
		out.of = "int-or-string"
	}
	switch out.of {
	case "object", "array", "string", "integer", "number", "boolean", "int-or-string":
	case "":
		if !s.XPreserveUnknownFields || len(s.Properties) > 0 || s.Items != nil || s.AdditionalProperties != nil {
			return &shape{of: "any", hard: all}
		}
		out.of = "any"
	default:
		return &shape{of: "any", hard: all}
	}
	out.nest(s, root)
	if v := s.ValueValidation; v != nil {
		out.bound(v)
	}
	if s.XListType != nil {
		out.set = *s.XListType == "set"
		out.keys = s.XListMapKeys
	}
	return out
}

// nest takes the schemas of fields and items over.
func (n *shape) nest(s *structuralschema.Structural, root bool) {
	n.fields = make(map[string]*shape, len(s.Properties))
	for name := range s.Properties {
		p := s.Properties[name]
		if root && (name == "apiVersion" || name == "kind" || name == "metadata") {
			if len(p.Properties) > 0 || p.AdditionalProperties != nil || p.Default.Object != nil || p.ValueValidation != nil || p.Nullable {
				n.hard = all
			}
			continue
		}
		n.fields[name] = newShape(&p, false)
		if p.Default.Object != nil {
			n.defaults = append(n.defaults, name)
		}
	}
	switch {
	case s.Items != nil:
		n.values = newShape(s.Items, false)
	case s.AdditionalProperties == nil:
	case s.AdditionalProperties.Structural != nil:
		n.values = newShape(s.AdditionalProperties.Structural, false)
	default:
		n.hard = all
	}
	if n.of == "array" && n.values == nil {
		n.hard = all
	}
}

// anyOfInts is what definitions say of values that are an integer or a string.
var anyOfInts = []structuralschema.NestedValueValidation{
	{ForbiddenGenerics: structuralschema.Generic{Type: "integer"}}, {ForbiddenGenerics: structuralschema.Generic{Type: "string"}},
}

// bound takes validations over.
func (n *shape) bound(v *structuralschema.ValueValidation) {
	ints := n.of == "int-or-string" && (len(v.AnyOf) == 0 || reflect.DeepEqual(v.AnyOf, anyOfInts))
	if len(v.AllOf)+len(v.OneOf) > 0 || len(v.AnyOf) > 0 && !ints || v.Not != nil || v.UniqueItems || v.MultipleOf != nil {
		n.hard |= unsound
	}
	if n.of == "int-or-string" || n.of == "any" {
		rest := *v
		rest.AnyOf = nil
		if !reflect.DeepEqual(rest, structuralschema.ValueValidation{}) {
			n.hard |= unsound
		}
	}
	if v.Pattern != "" {
		var err error
		if n.pattern, err = regexp.Compile(v.Pattern); err != nil || n.of != "string" {
			n.hard |= unsound
		}
	}
	for _, e := range v.Enum {
		n.enum = append(n.enum, e.Object)
	}
	n.format, n.required = v.Format, v.Required
	n.min, n.max, n.less, n.over = v.Minimum, v.Maximum, v.ExclusiveMinimum, v.ExclusiveMaximum
	lengths := map[string][2]*int64{
		"string": {v.MinLength, v.MaxLength}, "array": {v.MinItems, v.MaxItems}, "object": {v.MinProperties, v.MaxProperties},
	}
	n.shortest, n.longest = lengths[n.of][0], lengths[n.of][1]
	if v.Format != "" && n.of != "string" && n.of != "integer" && n.of != "number" {
		n.hard |= unsound
	}
	given := 0
	for _, pair := range lengths {
		for _, bound := range pair {
			if bound != nil {
				given++
			}
		}
	}
	for _, bound := range []*int64{n.shortest, n.longest} {
		if bound != nil {
			given--
		}
	}
	if given > 0 || len(v.Required) > 0 && n.of != "object" || (v.Minimum != nil || v.Maximum != nil) && n.of != "integer" && n.of != "number" {
		n.hard |= unsound // it says something of other types
	}
}

// object returns what is doubtful about a whole object, but for its metadata.
func (n *shape) object(content map[string]any) doubts {
	if n == nil {
		return all
	}
	return n.content(content, true)
}

func (n *shape) value(value any) doubts {
	if value == nil {
		if n.nullable && n.enum == nil {
			return n.hard
		}
		return all
	}
	d := n.hard
	if len(n.enum) > 0 && !slices.ContainsFunc(n.enum, func(e any) bool { return plain.Equal(e, value) }) {
		d |= unsound
	}
	switch v := value.(type) {
	case map[string]any:
		if n.of == "object" {
			return d | n.content(v, false)
		}
	case []any:
		if n.of == "array" {
			return d | n.items(v)
		}
	case string:
		if n.of == "string" {
			return d | n.text(v)
		}
		if n.of == "int-or-string" {
			return d
		}
	case int64:
		if n.of == "integer" || n.of == "number" {
			return d | n.number(float64(v), v)
		}
		if n.of == "int-or-string" {
			return d
		}
	case float64:
		if n.of == "number" {
			if v == math.Trunc(v) {
				d |= unpruned // it is written as a whole number, and read again as one
			}
			return d | n.number(v, 0)
		}
	case bool:
		if n.of == "boolean" {
			return d
		}
	}
	if n.of == "any" {
		return d
	}
	return all
}

func (n *shape) content(content map[string]any, root bool) doubts {
	d := n.hard
	for name, value := range content {
		if root && (name == "apiVersion" || name == "kind" || name == "metadata") {
			continue
		}
		switch field := n.fields[name]; {
		case field != nil:
			d |= field.value(value)
		case n.values != nil:
			d |= n.values.value(value)
		case !n.open:
			return all
		}
	}
	for _, name := range n.defaults {
		if _, has := content[name]; !has {
			d |= undefaulted
			break
		}
	}
	for _, name := range n.required {
		if value, has := content[name]; !has || value == nil {
			d |= unsound
		}
	}
	return d | n.long(len(content))
}

func (n *shape) long(length int) doubts {
	if n.shortest != nil && int64(length) < *n.shortest || n.longest != nil && int64(length) > *n.longest {
		return unsound
	}
	return 0
}

func (n *shape) items(items []any) doubts {
	d := n.long(len(items))
	for i := range items {
		d |= n.values.value(items[i])
	}
	if !n.set && len(n.keys) == 0 || d&unsound != 0 {
		return d
	}
	if len(items) > maxPairs {
		return d | unsound
	}
	for i := range items {
		for j := range i {
			if n.same(items[i], items[j]) {
				return d | unsound
			}
		}
	}
	return d
}

// same reports whether two items of a list with keys, or of a set, may be one and the same.
func (n *shape) same(a, b any) bool {
	if n.set {
		switch a.(type) {
		case string, int64, bool:
			return plain.Equal(a, b)
		}
		return true
	}
	x, ok1 := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok1 || !ok2 {
		return true
	}
	for _, key := range n.keys {
		switch x[key].(type) {
		case string, int64, bool:
		default:
			return true
		}
		if y[key] != nil && !plain.Equal(x[key], y[key]) {
			return false
		}
	}
	return true
}

func (n *shape) text(s string) doubts {
	d := doubts(0)
	if n.shortest != nil || n.longest != nil {
		d = n.long(utf8.RuneCountInString(s))
	}
	if n.pattern != nil && !n.pattern.MatchString(s) || n.format != "" && !strfmt.Default.Validates(n.format, s) {
		d |= unsound
	}
	return d
}

// exactly is the largest number up to which floats tell whole numbers apart.
const exactly = 1 << 53

func (n *shape) number(f float64, whole int64) doubts {
	switch {
	case n.min != nil && (f < *n.min || n.less && f == *n.min), n.max != nil && (f > *n.max || n.over && f == *n.max), math.Abs(f) >= exactly:
		return unsound
	case n.format == "" || n.of == "number" && (n.format == "double" || n.format == "float") && math.Abs(f) <= math.MaxFloat32:
	case n.of == "integer" && (n.format == "int64" || n.format == "int32" && whole == int64(int32(whole))):
	default:
		return unsound
	}
	return 0
}
