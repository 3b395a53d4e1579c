package translate

// variants is a set of variants; bit n is Variant n.
type variants uint8

const allVariants = variants(1<<VariantA | 1<<VariantB | 1<<VariantC)

func (s variants) has(v Variant) bool { return s&(1<<v) != 0 }

// A spelling is one name of a field.
type spelling struct {
	field int
	text  string
	of    variants // the variants that use it in requests
	// folded marks the spelling of all names that no variant uses, but that a
	// reader may take for the field. It has no text.
	folded bool
}

// form returns the form of the spelling of a field with a name of several
// words. The two forms of such a field differ.
func (s *spelling) form() Form {
	if s.of.has(VariantA) {
		return SnakeCase
	}
	return CamelCase
}

// spellings holds the spelling of each known name, by place.
var spellings = func() (found [placeCount]map[string]*spelling) {
	for i := range found {
		found[i] = make(map[string]*spelling)
	}
	for i := range fields {
		f := &fields[i]
		for _, v := range []Variant{VariantA, VariantB, VariantC} {
			addSpelling(found[f.in], f.requestName(v), spelling{field: i, text: f.requestName(v), of: 1 << v})
		}
		// Answers of variant C use the name of B.
		addSpelling(found[f.in], f.camel, spelling{field: i, text: f.camel})
	}
	return found
}()

// addSpelling adds a spelling under the key, or adds its variants to the one
// that the key has.
func addSpelling(names map[string]*spelling, key string, add spelling) {
	if s := names[key]; s != nil {
		s.of |= add.of
		return
	}
	names[key] = &add
}
