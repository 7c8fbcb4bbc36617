package main

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// The rest of a file, a message or an enum: all that a newer version of it has in addition. Bytes of a message
// that are appended to those of another one add their lists to its lists, so the rest of a descriptor can be
// appended to the descriptor that lacks it.
type part struct {
	name  string
	bytes []byte
}

// rest adds to a set what it lacks of these files, and returns that. Files of v2 are left out: its API is frozen,
// and Envoy takes it no more.
func rest(set *descriptorpb.FileDescriptorSet, newer []*descriptorpb.FileDescriptorProto) []part {
	types := map[string]bool{}
	byName := map[string]*descriptorpb.FileDescriptorProto{}
	for _, file := range set.File {
		byName[file.GetName()] = file
		visit(file, func(it element) { types[it.name] = types[it.name] || it.kind == "type" })
	}
	var parts []part
	for _, file := range newer {
		if !strings.HasPrefix(file.GetPackage()[strings.LastIndex(file.GetPackage(), ".")+1:], "v3") {
			continue
		}
		known := byName[file.GetName()]
		if known == nil {
			known = &descriptorpb.FileDescriptorProto{}
			set.File = append(set.File, known)
			parts = append(parts, add(file.GetName(), known, file))
			continue
		}
		parts = append(parts, restOfFile(known, file, types)...)
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return parts
}

// neverPublished takes those of Envoy's files out of a set that are in no version, and returns their names.
func neverPublished(set *descriptorpb.FileDescriptorSet, modules [][]*descriptorpb.FileDescriptorProto) []string {
	published := map[string]bool{}
	for _, file := range slices.Concat(modules...) {
		published[file.GetName()] = true
	}
	var names []string
	set.File = slices.DeleteFunc(set.File, func(file *descriptorpb.FileDescriptorProto) bool {
		isGone := strings.HasPrefix(file.GetName(), "envoy/") && !published[file.GetName()]
		if isGone {
			names = append(names, file.GetName())
		}
		return isGone
	})
	return names
}

func restOfFile(known, file *descriptorpb.FileDescriptorProto, types map[string]bool) []part {
	var parts []part
	more := &descriptorpb.FileDescriptorProto{}
	for _, message := range file.MessageType {
		name := file.GetPackage() + "." + message.GetName()
		if of := named(known.MessageType, message.GetName()); of != nil {
			parts = append(parts, restOfMessage(name, of, message)...)
		} else if !types[name] {
			// One that moved here from another file is there already.
			more.MessageType = append(more.MessageType, message)
		}
	}
	for _, enum := range file.EnumType {
		if of := named(known.EnumType, enum.GetName()); of != nil {
			parts = append(parts, restOfEnum(file.GetPackage()+"."+enum.GetName(), of, enum)...)
		} else {
			more.EnumType = append(more.EnumType, enum)
		}
	}
	if len(parts) == 0 && proto.Size(more) == 0 {
		return nil
	}
	for _, imported := range file.Dependency {
		if !slices.Contains(known.Dependency, imported) {
			more.Dependency = append(more.Dependency, imported)
		}
	}
	return append(parts, parted(file.GetName(), known, more)...)
}

func restOfMessage(name string, known, message *descriptorpb.DescriptorProto) []part {
	var parts []part
	more := &descriptorpb.DescriptorProto{}
	for _, field := range message.Field {
		if named(known.Field, field.GetName()) != nil {
			continue
		}
		// A field that was called otherwise before a version was published is that field.
		known.Field = slices.DeleteFunc(known.Field, func(other *descriptorpb.FieldDescriptorProto) bool {
			return other.GetNumber() == field.GetNumber()
		})
		more.Field = append(more.Field, field)
	}
	for _, nested := range message.NestedType {
		if of := named(known.NestedType, nested.GetName()); of != nil {
			parts = append(parts, restOfMessage(name+"."+nested.GetName(), of, nested)...)
		} else {
			more.NestedType = append(more.NestedType, nested)
		}
	}
	for _, enum := range message.EnumType {
		if of := named(known.EnumType, enum.GetName()); of != nil {
			parts = append(parts, restOfEnum(name+"."+enum.GetName(), of, enum)...)
		} else {
			more.EnumType = append(more.EnumType, enum)
		}
	}
	// Fields name their oneofs by index.
	for at, oneof := range message.OneofDecl {
		if at >= len(known.OneofDecl) {
			more.OneofDecl = append(more.OneofDecl, oneof)
		} else if known.OneofDecl[at].GetName() != oneof.GetName() {
			check(fmt.Errorf("%s: the oneof %s is another one", name, oneof.GetName()))
		}
	}
	return append(parts, parted(name, known, more)...)
}

func restOfEnum(name string, known, enum *descriptorpb.EnumDescriptorProto) []part {
	more := &descriptorpb.EnumDescriptorProto{}
	for _, value := range enum.Value {
		if named(known.Value, value.GetName()) == nil {
			more.Value = append(more.Value, value)
		}
	}
	return parted(name, known, more)
}

// parted adds a rest to what lacks it, if there is any.
func parted(name string, known, more proto.Message) []part {
	if proto.Size(more) == 0 {
		return nil
	}
	return []part{add(name, known, more)}
}

func add(name string, known, more proto.Message) part {
	proto.Merge(known, more)
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(more)
	check(err)
	return part{name, bytes}
}

// named returns the one with a name, or nil.
func named[T interface {
	comparable
	GetName() string
}](all []T, name string) T {
	var none T
	for _, one := range all {
		if one.GetName() == name {
			return one
		}
	}
	return none
}
