// A program that says which messages, fields and values of enums of Envoy's API are in which versions of
// the published Go module with its generated code.
//
// The first argument is a FileDescriptorSet, of which the elements are, and each further one the directory
// of a version. A line of the output is a kind, a name, and a digit for each version: 1 if it has the
// element. Elements that all versions have or that none has are left out, and so are those that came with
// the message around them.
//
// The elements of the newest version that the set lacks count as its own. The lines that begin with `define`
// say what they are: a file, a message or an enum, and the bytes in hex that make its descriptor, appended to
// those of the set, one that has them (see rest.go). A file after `undefine` is in no version: it was called
// otherwise when it was published.
//
// The descriptors stand in the generated files as bytes, so nothing of a module has to be compiled.
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// An element: its kind and its full name.
type element struct{ kind, name string }

func main() {
	bytes, err := os.ReadFile(os.Args[1])
	check(err)
	var set descriptorpb.FileDescriptorSet
	check(proto.Unmarshal(bytes, &set))
	var modules [][]*descriptorpb.FileDescriptorProto
	for _, dir := range os.Args[2:] {
		modules = append(modules, files(dir))
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, name := range neverPublished(&set, modules) {
		fmt.Fprintln(out, "undefine", name, "-")
	}
	for _, it := range rest(&set, modules[len(modules)-1]) {
		fmt.Fprintf(out, "define %s %x\n", it.name, it.bytes)
	}
	var known []element
	for _, file := range set.File {
		visit(file, func(it element) { known = append(known, it) })
	}
	slices.SortFunc(known, func(a, b element) int {
		return strings.Compare(a.name+" "+a.kind, b.name+" "+b.kind)
	})
	var versions []map[element]bool
	for _, module := range modules {
		versions = append(versions, elements(module))
	}
	around := map[string]string{}
	for _, it := range known {
		digits := ""
		for _, version := range versions {
			digits += map[bool]string{false: "0", true: "1"}[version[it]]
		}
		if it.kind == "type" {
			around[it.name] = digits
		}
		within := cut(it.name)
		if it.kind == "value" {
			within = cut(within)
		}
		isInSome := strings.Contains(digits, "0") && strings.Contains(digits, "1")
		if isInSome && digits != around[within] {
			fmt.Fprintln(out, it.kind, it.name, digits)
		}
	}
}

// cut returns a name without its last part.
func cut(name string) string {
	return name[:strings.LastIndex(name, ".")]
}

// elements returns everything that files declare.
func elements(files []*descriptorpb.FileDescriptorProto) map[element]bool {
	found := map[element]bool{}
	for _, file := range files {
		visit(file, func(it element) { found[it] = true })
	}
	return found
}

// files returns the descriptors in the generated files below a directory.
func files(dir string) []*descriptorpb.FileDescriptorProto {
	var found []*descriptorpb.FileDescriptorProto
	check(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		check(err)
		// Other generators write files beside, which have no descriptor.
		if entry.IsDir() || !strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		if bytes := descriptor(path); bytes != nil {
			var file descriptorpb.FileDescriptorProto
			check(proto.Unmarshal(bytes, &file))
			found = append(found, &file)
		}
		return nil
	}))
	if len(found) == 0 {
		check(fmt.Errorf("no descriptors below %s", dir))
	}
	return found
}

// descriptor returns the bytes of the descriptor that a generated file has, or nil.
func descriptor(path string) []byte {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	check(err)
	for _, declaration := range file.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if ok && strings.HasSuffix(value.Names[0].Name, "_rawDesc") {
				return constant(value.Values[0])
			}
		}
	}
	return nil
}

// constant evaluates a list of bytes, or texts that are added up.
func constant(expression ast.Expr) []byte {
	switch it := expression.(type) {
	case *ast.BasicLit:
		if it.Kind == token.STRING {
			text, err := strconv.Unquote(it.Value)
			check(err)
			return []byte(text)
		}
		number, err := strconv.ParseUint(it.Value, 0, 8)
		check(err)
		return []byte{byte(number)}
	case *ast.BinaryExpr:
		return append(constant(it.X), constant(it.Y)...)
	case *ast.CompositeLit:
		var bytes []byte
		for _, element := range it.Elts {
			bytes = append(bytes, constant(element)...)
		}
		return bytes
	}
	check(fmt.Errorf("an unknown form of a descriptor: %T", expression))
	return nil
}

// visit calls a function for everything that a file declares.
func visit(file *descriptorpb.FileDescriptorProto, found func(element)) {
	for _, message := range file.MessageType {
		visitMessage(file.GetPackage(), message, found)
	}
	for _, enum := range file.EnumType {
		visitEnum(file.GetPackage(), enum, found)
	}
}

func visitMessage(within string, message *descriptorpb.DescriptorProto, found func(element)) {
	name := within + "." + message.GetName()
	found(element{"type", name})
	for _, field := range message.Field {
		found(element{"field", name + "." + field.GetName()})
	}
	for _, nested := range message.NestedType {
		visitMessage(name, nested, found)
	}
	for _, enum := range message.EnumType {
		visitEnum(name, enum, found)
	}
}

func visitEnum(within string, enum *descriptorpb.EnumDescriptorProto, found func(element)) {
	for _, value := range enum.Value {
		found(element{"value", within + "." + enum.GetName() + "." + value.GetName()})
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
