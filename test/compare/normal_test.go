package compare

import "testing"

func TestManagedFieldsOfATextAreInOneOrder(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`no: "{\"metadata\":{\"managedFields\":[{\"m\":\"b\",\"f\":{\"x\":[1,2]}},{\"m\":\"a\"}],\"k\":[3,1]}}" and "managedFields":[2,1]`: `no: "{\"metadata\":{\"managedFields\":[{\"m\":\"a\"},{\"m\":\"b\",\"f\":{\"x\":[1,2]}}],\"k\":[3,1]}}" and "managedFields":[1,2]`,
		`cut off: "managedFields":[{"m":"b"},{"m":`: `cut off: "managedFields":[{"m":"b"},{"m":`,
		"nothing of it": "nothing of it",
	} {
		if got := normal(text, nil); got != want {
			t.Errorf("%s", got)
		}
	}
}
