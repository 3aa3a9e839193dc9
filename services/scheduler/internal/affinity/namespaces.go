package affinity

import (
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/services/scheduler/internal/table"
)

// Namespaces are the labels of namespaces, by their names.
type Namespaces struct{ rows table.Table[labels.Set] }

// Set has a namespace bear these labels.
func (n *Namespaces) Set(name string, set labels.Set) { n.rows.Set(name, set) }

// Delete forgets a namespace.
func (n *Namespaces) Delete(name string) { n.rows.Delete(name) }

// Clone returns namespaces that later changes of these do not reach.
func (n *Namespaces) Clone() Namespaces { return Namespaces{n.rows.Clone()} }

func (n Namespaces) labels(name string) labels.Set { return n.rows.Get(name) }
