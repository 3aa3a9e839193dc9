package podcontrol

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Verb is what was done to a pod.
type Verb string

// What Events tell of; their reasons are Successful or Failed, and the verb.
const (
	Create Verb = "Create"
	Update Verb = "Update"
	Delete Verb = "Delete"
)

// Wording returns the message of an Event. err is nil where the verb was successful.
type Wording func(owner Owner, verb Verb, pod string, err error) string

// usual is the wording of ReplicaSets and most others.
func usual(_ Owner, verb Verb, pod string, err error) string {
	past, doing := "Created", "creating"
	switch verb {
	case Update:
		past, doing = "Updated", "updating"
	case Delete:
		past, doing = "Deleted", "deleting"
	}
	if err != nil {
		return fmt.Sprintf("Error %s: %v", doing, err)
	}
	return fmt.Sprintf("%s pod: %s", past, pod)
}

// tell records what became of a pod in an Event of its owner.
func (c *Control) tell(owner Owner, verb Verb, pod string, err error) {
	message := c.word(owner, verb, pod, err)
	if err != nil {
		c.events.Event(owner, corev1.EventTypeWarning, "Failed"+string(verb), message)
		return
	}
	c.events.Event(owner, corev1.EventTypeNormal, "Successful"+string(verb), message)
}
