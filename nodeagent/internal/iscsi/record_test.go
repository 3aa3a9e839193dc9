package iscsi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func recordOf(change func(*Record)) Record {
	r := Record{Disk: Disk{Portals: []string{"192.0.2.7:3260", "192.0.2.8:3260"}, IQN: iqn, Interface: "default"}}
	if change != nil {
		change(&r)
	}
	return r
}

// TestLeaves logs out by way of no portal by which another disk of the target is in use, and removes no interface that another has.
func TestLeaves(t *testing.T) {
	t.Parallel()
	both := []string{"192.0.2.7:3260", "192.0.2.8:3260"}
	second := func(r *Record) { r.LUN = 1 }
	for name, test := range map[string]struct {
		record func(*Record)
		others []Record
		out    []string
		iface  bool
	}{
		"the last":                    {func(r *Record) { r.Mine = both }, []Record{recordOf(nil)}, both, false},
		"an administrator's":          {nil, nil, nil, false},
		"another disk":                {func(r *Record) { r.Mine = both }, []Record{recordOf(second)}, nil, false},
		"another disk by one portal":  {func(r *Record) { r.Mine = both }, []Record{recordOf(func(r *Record) { second(r); r.Portals = both[1:] })}, both[:1], false},
		"another target":              {func(r *Record) { r.Mine = both }, []Record{recordOf(func(r *Record) { r.IQN += "2" })}, both, false},
		"another interface":           {func(r *Record) { r.Mine = both }, []Record{recordOf(func(r *Record) { r.Interface = "fast" })}, both, false},
		"its interface":               {func(r *Record) { r.Mine, r.Initiator, r.Interface = both, "me", "i" }, nil, both, true},
		"its interface, others, too":  {func(r *Record) { r.Mine, r.Initiator, r.Interface = both, "me", "i" }, []Record{recordOf(func(r *Record) { r.IQN, r.Interface = r.IQN+"2", "i" })}, both, false},
		"its interface, others other": {func(r *Record) { r.Mine, r.Initiator, r.Interface = both, "me", "i" }, []Record{recordOf(func(r *Record) { r.IQN += "2" })}, both, true},
	} {
		r := recordOf(test.record)
		if l := r.Leaves(test.others); !slices.Equal(l.Out, test.out) || l.Interface != test.iface || !slices.Equal(l.Mine, r.Mine) {
			t.Errorf("%s: %+v, want out of %v, interface %v", name, l, test.out, test.iface)
		}
	}
}

// TestClash keeps a disk from being had in two ways at the same time, unless nobody writes to it.
func TestClash(t *testing.T) {
	t.Parallel()
	reads, writes := []User{{Pod: "a", ReadOnly: true}}, []User{{Pod: "a", ReadOnly: true}, {Pod: "b"}}
	elsewhere := func(users []User) func(*Record) {
		return func(r *Record) { r.Portals, r.Users = []string{"192.0.2.9:3260"}, users }
	}
	for name, test := range map[string]struct {
		other    func(*Record)
		readOnly bool
		clash    string
	}{
		"the same":                   {func(r *Record) { r.Users = writes }, false, ""},
		"another disk":               {func(r *Record) { r.LUN, r.Interface, r.Users = 1, "fast", writes }, false, ""},
		"another portal":             {elsewhere(writes), false, "in use on this node"},
		"another portal, both read":  {elsewhere(reads), true, ""},
		"another portal, one reads":  {elsewhere(reads), false, "in use on this node"},
		"another portal, it writes":  {elsewhere(writes), true, "in use on this node"},
		"another portal, going":      {elsewhere(nil), true, "in use on this node"},
		"another interface":          {func(r *Record) { r.Interface, r.Users = "fast", writes }, false, "by way of the interface fast"},
		"the interface, other names": {func(r *Record) { r.IQN, r.Initiator = r.IQN+"2", "other" }, false, "with another initiatorName"},
	} {
		r := recordOf(nil)
		err := r.Clash([]Record{recordOf(test.other)}, test.readOnly)
		if (err == nil) != (test.clash == "") || err != nil && !strings.Contains(err.Error(), test.clash) {
			t.Errorf("%s: %v, want %q", name, err, test.clash)
		}
	}
}

// TestCalled says of a disk all that volumes call it, and of one that an older agent has taken what they may have called it.
func TestCalled(t *testing.T) {
	t.Parallel()
	const name = "kubernetes.io/iscsi/192.0.2.7:" + iqn + ":0"
	usual := []corev1.UniqueVolumeName{"kubernetes.io/iscsi/192.0.2.7:3260:" + iqn + ":0", name}
	for what, test := range map[string]struct {
		record func(*Record)
		call   corev1.UniqueVolumeName
		want   []corev1.UniqueVolumeName
	}{
		"new":                       {nil, name, []corev1.UniqueVolumeName{name}},
		"again":                     {func(r *Record) { r.Names = []corev1.UniqueVolumeName{name} }, name, []corev1.UniqueVolumeName{name}},
		"another spelling":          {func(r *Record) { r.Names, r.Users = []corev1.UniqueVolumeName{name}, []User{{Pod: "a"}} }, "x", []corev1.UniqueVolumeName{name, "x"}},
		"of an older agent":         {func(r *Record) { r.Users = []User{{Pod: "a"}} }, "", usual},
		"of an older agent, again":  {func(r *Record) { r.Users = []User{{Pod: "a"}} }, "x", append(slices.Clone(usual), "x")},
		"of an older agent, unused": {nil, "", usual},
		"of IPv6": {func(r *Record) { r.Portals = []string{"[2001:db8::1]:3260"} }, "", []corev1.UniqueVolumeName{
			"kubernetes.io/iscsi/[2001:db8::1]:3260:" + iqn + ":0", "kubernetes.io/iscsi/2001:db8::1:" + iqn + ":0", "kubernetes.io/iscsi/[2001:db8::1]:" + iqn + ":0",
		}},
		"of another port": {func(r *Record) { r.Portals = []string{"192.0.2.7:1"} }, "", []corev1.UniqueVolumeName{"kubernetes.io/iscsi/192.0.2.7:1:" + iqn + ":0"}},
	} {
		r := recordOf(test.record)
		if test.call != "" {
			r.Call(test.call)
		}
		if got := r.Called(); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", what, got, test.want)
		}
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	s := Records{Dir: t.TempDir()}
	r := recordOf(nil)
	if got, err := s.Read(&r.Disk); err != nil || got.Key() != r.Key() || len(got.Users) > 0 {
		t.Errorf("before: %+v, %v", got, err)
	}
	r.Use(User{Pod: "a", Name: "v"})
	r.Use(User{Pod: "a", Name: "v", ReadOnly: true})
	r.Use(User{Pod: "b", Name: "w"})
	r.Begin("192.0.2.7:3260")
	r.Begin("192.0.2.7:3260")
	if err := s.Write(&r); err != nil {
		t.Fatal(err)
	}
	got, err := s.Read(&r.Disk)
	if err != nil || !slices.Equal(got.Users, []User{{"a", "v", true}, {"b", "w", false}}) || !slices.Equal(got.Mine, []string{"192.0.2.7:3260"}) {
		t.Errorf("read %+v, %v", got, err)
	}
	if want := filepath.Join(s.Dir, "iface-default", "192.0.2.7:3260-"+iqn+"-lun-0", "globalmount"); s.Mount(&r.Disk) != want {
		t.Errorf("mounted at %s, want %s", s.Mount(&r.Disk), want)
	}
	other := recordOf(func(r *Record) { r.LUN = 1 })
	if !other.Inherit(got) || other.Inherit(got) || !slices.Equal(other.Mine, got.Mine) {
		t.Errorf("inherited %v", other.Mine)
	}
	if err := os.MkdirAll(filepath.Join(s.Dir, "iface-x", "y"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "iface-x", "y", recordFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := s.All(); len(all) != 1 || err == nil {
		t.Errorf("all: %+v, %v", all, err)
	}
	if err := s.Remove(&r.Disk); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "iface-default")); !os.IsNotExist(err) {
		t.Errorf("folders are left: %v", err)
	}
}
