package translate

// variants is a set of variants; bit n is Variant n.
type variants uint8

const allVariants = variants(1<<VariantA | 1<<VariantB | 1<<VariantC)

func (s variants) has(v Variant) bool { return s&(1<<v) != 0 }

// A spelling is one name of a field, with the variants that write it so in
// requests.
type spelling struct {
	field int
	text  string
	of    variants
}

// spellings holds the spelling of each known name, by place.
var spellings = func() (found [placeCount]map[string]*spelling) {
	for i := range found {
		found[i] = make(map[string]*spelling)
	}
	for i := range fields {
		f := &fields[i]
		for _, v := range []Variant{VariantA, VariantB, VariantC} {
			addSpelling(found[f.in], spelling{i, f.requestName(v), 1 << v})
		}
		// Answers of variant C use the name of B.
		addSpelling(found[f.in], spelling{field: i, text: f.camel})
	}
	return found
}()

func addSpelling(names map[string]*spelling, add spelling) {
	if s := names[add.text]; s != nil {
		s.of |= add.of
		return
	}
	names[add.text] = &add
}
