// Package expression compiles the CEL expressions of admission policies and match conditions, in the environment that
// Kubernetes documents for them: its variables, libraries and cost limits.
package expression

import (
	"fmt"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Expression is one expression and the types that it may return.
type Expression struct {
	// Name of a variable; empty for all others.
	Name  string
	Text  string
	Types []*celgo.Type
}

// GetName implements plugincel.NamedExpressionAccessor.
func (e *Expression) GetName() string { return e.Name }

// GetExpression implements plugincel.ExpressionAccessor.
func (e *Expression) GetExpression() string { return e.Text }

// ReturnTypes implements plugincel.ExpressionAccessor.
func (e *Expression) ReturnTypes() []*celgo.Type { return e.Types }

// Condition is an expression that says yes or no.
func Condition(text string) *Expression {
	return &Expression{Text: text, Types: []*celgo.Type{celgo.BoolType}}
}

// Message is an expression that makes a text.
func Message(text string) *Expression {
	return &Expression{Text: text, Types: []*celgo.Type{celgo.StringType}}
}

// Annotation is an expression that makes the value of an audit annotation, or null for none.
func Annotation(text string) *Expression {
	return &Expression{Text: text, Types: []*celgo.Type{celgo.StringType, celgo.NullType}}
}

// Variable is an expression of any type that others may refer to by name.
func Variable(name, text string) *Expression {
	return &Expression{Name: name, Text: text, Types: []*celgo.Type{celgo.AnyType, celgo.DynType}}
}

var base = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

var plain = sync.OnceValue(func() plugincel.Compiler { return plugincel.NewCompiler(base()) })

// Environment is what all expressions have: Kubernetes' CEL libraries, and no variables.
func Environment() *environment.EnvSet { return base() }

// Plain returns a compiler of expressions that know no variables of a policy, as match conditions of webhooks.
func Plain() plugincel.Compiler { return plain() }

// Composed returns a compiler for one policy's expressions, which know the policy's variables that were compiled before.
func Composed() (*plugincel.CompositedCompiler, error) {
	return plugincel.NewCompositedCompiler(base())
}

// Problem is what a client is told of an expression that does not compile.
func Problem(path *field.Path, text string, err *apiservercel.Error) *field.Error {
	switch err.Type {
	case apiservercel.ErrorTypeRequired:
		return field.Required(path, err.Detail)
	case apiservercel.ErrorTypeInvalid:
		return field.Invalid(path, text, err.Detail)
	case apiservercel.ErrorTypeInternal:
		return field.InternalError(path, err)
	}
	return field.InternalError(path, fmt.Errorf("unsupported error type: %w", err))
}
