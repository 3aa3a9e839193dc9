package kind_test

import "testing"

func TestRBACValidate(t *testing.T) {
	t.Parallel()
	const (
		group   = "apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: 'a:b', namespace: default}, "
		role    = "{kind: Role, " + group + "rules: "
		cluster = "{kind: ClusterRole, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: a}, "
		binding = "{kind: RoleBinding, " + group + "roleRef: "
		all     = "{kind: ClusterRoleBinding, " + group + "roleRef: {kind: ClusterRole, name: a}, subjects: "
	)
	validates(t, map[string]validation{
		"role":         {role + "[{verbs: [get], apiGroups: ['']  , resources: [pods]}]}", nil},
		"bare role":    {role + "[]}", nil},
		"nothing":      {role + "[{}]}", []string{"rules[0].verbs: Required value: verbs must contain at least one value", "rules[0].apiGroups: Required value: resource rules must supply at least one api group", "rules[0].resources: Required value: resource rules must supply at least one resource"}},
		"url in role":  {role + "[{verbs: [get], nonResourceURLs: [/a]}]}", []string{`rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to non-resource URLs`}},
		"url":          {cluster + "rules: [{verbs: [get], nonResourceURLs: [/a]}]}", nil},
		"both":         {cluster + "rules: [{verbs: [get], nonResourceURLs: [/a], resources: [b]}]}", []string{`rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and non-resource URLs`}},
		"aggregation":  {cluster + "rules: [], aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}}", nil},
		"no selectors": {cluster + "rules: [], aggregationRule: {}}", []string{"aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"}},
		"binding":      {binding + "{kind: Role, name: a}, subjects: [{kind: User, name: b}, {kind: Group, name: 'c:d'}, {kind: ServiceAccount, name: e}]}", nil},
		"reference":    {binding + "{apiGroup: x, kind: Rule, name: a/b}}", []string{`roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"`, `roleRef.kind: Unsupported value: "Rule": supported values: "Role", "ClusterRole"`, `roleRef.name: Invalid value: "a/b": may not contain '/'`}},
		"no role":      {binding + "{kind: Role}}", []string{"roleRef.name: Required value"}},
		"subjects": {all + "[{kind: Robot}, {kind: ServiceAccount, name: A}, {kind: User, name: a, apiGroup: b}]}", []string{
			"subjects[0].name: Required value",
			`subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"`,
			`subjects[1].name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			"subjects[1].namespace: Required value",
			`subjects[2].apiGroup: Unsupported value: "b": supported values: "rbac.authorization.k8s.io"`,
		}},
	})
	validatesUpdates(t, map[string]change{
		"subjects": {binding + "{kind: Role, name: a}}", binding + "{kind: Role, name: a}, subjects: [{kind: User, name: b}]}", nil},
		"role": {binding + "{kind: Role, name: a}}", binding + "{kind: Role, name: b}}",
			[]string{`roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"b"}: cannot change roleRef`}},
	})
}

func TestRBACColumns(t *testing.T) {
	t.Parallel()
	const head = "Name|Role|Age|[Users]|[Groups]|[ServiceAccounts]"
	const subjects = "subjects: [{kind: User, name: a}, {kind: User, name: b}, {kind: Group, name: c}, {kind: ServiceAccount, name: d, namespace: e}]}"
	shows(t, map[string]shown{
		"binding": {"{kind: RoleBinding, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: x}, roleRef: {kind: ClusterRole, name: z}, " + subjects,
			head, "x|ClusterRole/z|<unknown>|a, b|c|e/d"},
		"cluster binding": {"{kind: ClusterRoleBinding, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: x}, roleRef: {kind: ClusterRole, name: z}, " + subjects,
			head, "x|ClusterRole/z|<unknown>|a, b|c|e/d"},
	})
}
