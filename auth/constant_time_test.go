package auth

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// The file that compares what a sender must not guess has no comparison whose
// time depends on the text. Its operators compare only with a literal or nil, it
// imports no package that compares, and equalText calls
// subtle.ConstantTimeCompare for both texts. A clock cannot test this on a busy
// machine.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	compared := 0
	for _, name := range []string{"canonical.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range file.Imports {
			switch strings.Trim(imported.Path.Value, `"`) {
			case "bytes", "strings", "slices", "maps", "cmp", "reflect", "regexp", "unique":
				t.Errorf("%s imports %s, which compares as fast as it can", name, imported.Path.Value)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if comparison(n.Op) && !literal(n.X) && !literal(n.Y) {
					t.Errorf("%s compares with %s at byte %d", name, n.Op, n.OpPos)
				}
			case *ast.SwitchStmt, *ast.MapType:
				t.Errorf("%s: a switch and a map compare as fast as they can", name)
			case *ast.FuncDecl:
				if n.Name.Name == "equalText" && callsConstantTime(n) {
					compared++
				}
			}
			return true
		})
	}
	if compared != 1 {
		t.Error("equalText does not call subtle.ConstantTimeCompare(want[:], text[:])")
	}
}

func comparison(op token.Token) bool {
	switch op {
	case token.EQL, token.NEQ, token.LSS, token.GTR, token.LEQ, token.GEQ:
		return true
	}
	return false
}

func literal(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return e.Name == "nil"
	}
	return false
}

// callsConstantTime reports whether the function compares the slices of want
// and text by subtle.ConstantTimeCompare.
func callsConstantTime(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		if fun, ok := call.Fun.(*ast.SelectorExpr); ok && fun.Sel.Name == "ConstantTimeCompare" {
			found = found || wholeSlice(call.Args[0]) == "want" && wholeSlice(call.Args[1]) == "text"
		}
		return true
	})
	return found
}

// wholeSlice returns the name of x in x[:], else nothing.
func wholeSlice(e ast.Expr) string {
	if s, ok := e.(*ast.SliceExpr); ok && s.Low == nil && s.High == nil {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name
		}
	}
	return ""
}
