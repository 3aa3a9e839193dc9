package openapi

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// groupName is a group in the names of operations: RbacAuthorization, DiscExampleCom.
func groupName(group string) string {
	if group == "" {
		return "Core"
	}
	var name strings.Builder
	for part := range strings.SplitSeq(strings.TrimSuffix(group, ".k8s.io"), ".") {
		for word := range strings.SplitSeq(part, "-") {
			name.WriteString(title(word))
		}
	}
	return name.String()
}

// operationID makes the name of an operation, as in listCoreV1NamespacedPod.
func operationID(verb string, gv schema.GroupVersion, rest string) string {
	return verb + groupName(gv.Group) + title(gv.Version) + title(rest)
}

// tagOf is the tag of a group's operations, or of one version's.
func tagOf(gv schema.GroupVersion) string {
	name := groupName(gv.Group)
	name = strings.ToLower(name[:1]) + name[1:]
	if gv.Version == "" {
		return name
	}
	return name + "_" + gv.Version
}

// rootOf is the path of a group and version.
func rootOf(gv schema.GroupVersion) string { return "/" + documentName(gv) }

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// oneOf is a kind with its article, where it takes one.
func oneOf(kind string) string {
	switch {
	case strings.HasSuffix(kind, "s") && !strings.HasSuffix(kind, "ss"): // a plural, as Endpoints
		return kind
	case strings.ContainsRune("AEIOU", rune(kind[0])):
		return "an " + kind
	}
	return "a " + kind
}

// reversed returns the parts of a group, the last first.
func reversed(group string) []string {
	parts := strings.Split(group, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return parts
}

// customName is the name of a custom kind's model: com.example.v1.Widget.
func customName(gvk schema.GroupVersionKind) string {
	return strings.Join(append(reversed(gvk.Group), gvk.Version, gvk.Kind), ".")
}
