package device

import (
	"fmt"
	"math"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/ext"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"howdah.dev/services/apiserver/internal/expression"
)

// environments knows the variable of selectors: the device, as Kubernetes documents it.
var environments = sync.OnceValues(func() (*celgo.Env, error) {
	named := func(name string, of *apiservercel.DeclType, required bool) *apiservercel.DeclField {
		return apiservercel.NewDeclField(name, of, required, nil, nil)
	}
	byDomain := func(value *apiservercel.DeclType) *apiservercel.DeclType {
		inner := apiservercel.NewMapType(apiservercel.StringType, value, resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
		return apiservercel.NewMapType(apiservercel.StringType, inner, resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
	}
	device := apiservercel.NewObjectType("kubernetes.DRADevice", map[string]*apiservercel.DeclField{
		"driver":                   named("driver", apiservercel.StringType, true),
		"allowMultipleAllocations": named("allowMultipleAllocations", apiservercel.BoolType, true),
		"attributes":               named("attributes", byDomain(apiservercel.AnyType), true),
		"capacity":                 named("capacity", byDomain(apiservercel.QuantityDeclType), true),
	})
	set, err := expression.Environment().Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 31),
		EnvOptions:        []celgo.EnvOption{celgo.Variable("device", device.CelType()), ext.Bindings(ext.BindingsVersion(0))},
		DeclTypes:         []*apiservercel.DeclType{device},
	})
	if err != nil {
		return nil, err
	}
	return set.NewExpressionsEnv(), nil
})

// compile returns what is wrong with a selector's expression: that it does not compile, says neither yes nor no, or costs too much.
func compile(text string, path *field.Path) field.ErrorList {
	env, err := environments()
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	ast, issues := env.Compile(text)
	if issues != nil {
		return field.ErrorList{field.Invalid(path, text, "compilation failed: "+issues.String())}
	}
	if got := ast.OutputType(); !got.IsExactType(celgo.BoolType) && !got.IsExactType(celgo.AnyType) && !got.IsExactType(celgo.DynType) {
		return field.ErrorList{field.Invalid(path, text, fmt.Sprintf("must evaluate to %v or the unknown type, not %v", celgo.BoolType, got))}
	}
	cost, err := env.EstimateCost(ast, &library.CostEstimator{SizeEstimator: sizes{}})
	if err != nil {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("cost estimation failed: %w", err))}
	}
	if cost.Max > resourcev1.CELSelectorExpressionMaxCost {
		return field.ErrorList{field.Forbidden(path, "too complex, exceeds cost limit")}
	}
	return nil
}

// sizes bounds what a device can hold.
type sizes struct{}

// EstimateSize implements checker.CostEstimator.
func (sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path := element.Path()
	if len(path) < 2 || path[0] != "device" {
		return &checker.SizeEstimate{Min: 0, Max: math.MaxUint64}
	}
	depth := len(path) - 2
	switch {
	case path[1] == "driver":
		return &checker.SizeEstimate{Min: 1, Max: resourcev1.DriverNameMaxLength}
	case path[1] == "attributes" || path[1] == "capacity":
		switch {
		case depth < 2 && path[len(path)-1] == "@keys":
			return &checker.SizeEstimate{Max: resourcev1.DeviceMaxDomainLength}
		case depth < 2:
			return &checker.SizeEstimate{Max: resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice}
		}
		return &checker.SizeEstimate{Max: resourcev1.DeviceAttributeMaxValueLength}
	}
	return &checker.SizeEstimate{Min: 1, Max: 1}
}

// EstimateCallCost implements checker.CostEstimator.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
