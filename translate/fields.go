package translate

import (
	"maps"
	"unicode/utf8"
)

// A place is an object that holds known fields.
type place uint8

const (
	top place = iota
	inBusiness
	inAddress
	placeCount
)

// placeNames hold the first part of the names of fields in an inner object.
var placeNames = [placeCount]string{inBusiness: "business.", inAddress: "address."}

// A need is the rule of a variant for a field in a create request.
type need uint8

const (
	// free: the interface publishes no constraint; any value passes.
	free need = iota
	// optional: a string or null.
	optional
	// always: a string, never null.
	always
	// individual: a string or null, and for individual customers a string.
	individual
	// individualOrNull: a string or null, and for individual customers present.
	individualOrNull
	// business: a string or null, and for business customers a string.
	business
)

// needs holds the need of each variant, by [Variant].
type needs [4]need

func each(a, b, c need) needs { return needs{VariantA: a, VariantB: b, VariantC: c} }
func every(n need) needs      { return each(n, n, n) }

// A field is one field of the customer in all its spellings.
type field struct {
	in    place
	snake string
	camel string
	// requestC is the name in requests of variant C where it differs.
	requestC string
	needs    needs
	max      int  // length in characters; 0: no limit
	date     bool // a calendar day, whose value is converted too
	// opens is the place of the known fields inside the value; top: none.
	opens place
	// check returns what is wrong with a value, or "".
	check func(v Variant, value []byte) string
}

// fields is the one table of names, validation and dates, for requests and
// answers. A field without needs has no published constraints. To add a field,
// add a line.
var fields = [...]field{
	typeField: {snake: "type", camel: "type", needs: every(always), check: checkType},
	{snake: "first_name", camel: "firstName", needs: each(always, optional, individualOrNull), max: 100},
	{snake: "middle_name", camel: "middleName"},
	{snake: "last_name", camel: "lastName", needs: each(always, optional, individualOrNull), max: 100},
	{snake: "email", camel: "email", needs: every(always), check: checkEmail},
	{snake: "phone_code", camel: "phoneCode", needs: every(always), check: checkPhoneCode},
	{snake: "phone_number", camel: "phoneNumber", needs: every(always), check: checkPhoneNumber},
	{snake: "country", camel: "country", requestC: "countryIsoTwo", needs: every(always), check: checkCountry},
	{snake: "state", camel: "state", needs: every(optional)},
	{snake: "business_name", camel: "businessName", needs: each(optional, business, business)},
	{snake: "date_of_birth", camel: "dateOfBirth", needs: every(individual), date: true, check: checkDate},
	{snake: "gender", camel: "gender", needs: every(individual), check: checkGender},
	{snake: "external_reference", camel: "externalReference", needs: every(optional), max: 200},

	{snake: "id", camel: "id"},
	{snake: "status", camel: "status"},
	{snake: "kyc_state", camel: "kycState"},
	{snake: "created_at", camel: "createdAt"},
	{snake: "updated_at", camel: "updatedAt"},
	{snake: "business", camel: "business", opens: inBusiness},
	{snake: "address", camel: "address", opens: inAddress},

	{in: inBusiness, snake: "business_name", camel: "businessName"},
	{in: inBusiness, snake: "legal_name", camel: "legalName"},
	{in: inBusiness, snake: "registration_number", camel: "registrationNumber"},
	{in: inBusiness, snake: "tax_id", camel: "taxId"},

	{in: inAddress, snake: "address_line1", camel: "addressLine1"},
	{in: inAddress, snake: "address_line2", camel: "addressLine2"},
	{in: inAddress, snake: "city", camel: "city"},
	{in: inAddress, snake: "state", camel: "state"},
	{in: inAddress, snake: "postal_code", camel: "postalCode"},
	{in: inAddress, snake: "country", camel: "country"},
}

// typeField is the index of the field that holds the customer's type.
const typeField = 0

// name returns the field's name in the form.
func (f *field) name(form Form) string {
	if form == CamelCase {
		return f.camel
	}
	return f.snake
}

// requestName returns the name that a client of the variant writes in a
// request, without the name of the inner object.
func (f *field) requestName(v Variant) string {
	if v == VariantC && f.requestC != "" {
		return f.requestC
	}
	return f.name(v.form())
}

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

// Some readers of JSON ignore case (Go, .NET and Jackson can) or separators (Go
// and others can). Such a reader takes "Country" and "date-of-birth" for
// "country" and "date_of_birth". So only the published spellings of a known
// field are allowed. Any other name that folds to one of them is refused.

// maxFolded is a length in bytes that no known name reaches.
const maxFolded = 32

// fold appends the letters and digits of a name to dst, in lower case. It
// returns nil when no known name folds to the same text.
func fold(dst, name []byte) []byte {
	for len(name) > 0 {
		r, size := utf8.DecodeRune(name)
		name = name[size:]
		if separates(r) {
			continue
		}
		if r = folded(r); r >= utf8.RuneSelf || len(dst) == maxFolded {
			return nil
		}
		dst = append(dst, byte(r))
	}
	return dst
}

// ownNames fold to "id" but are different names: databases and their libraries
// use them for their own keys. They are safe to allow, because no request sets
// the field id and no check applies to it.
var ownNames = map[string]bool{"_id": true, "id_": true}

// foldings holds a spelling for each folded known name, by place. It stands
// for all names that fold to it and that no variant writes.
var foldings = func() (found [placeCount]map[string]*spelling) {
	for at := range found {
		found[at] = make(map[string]*spelling)
		for s := range maps.Values(spellings[at]) {
			key := string(fold(nil, []byte(s.text)))
			addSpelling(found[at], key, spelling{field: s.field, of: s.of, folded: true})
		}
	}
	return found
}()

// spelled returns the spelling of the known field that a reader may take the
// name for, in the published or in another spelling. It returns nil for any
// other name.
func spelled(at place, name []byte) *spelling {
	if s := spellings[at][string(name)]; s != nil {
		return s
	}
	if ownNames[string(name)] {
		return nil
	}
	var room [maxFolded]byte
	return foldings[at][string(fold(room[:0], name))]
}

// A published is a set of published names outside of customers, by folded
// name.
type published map[string]string

// known returns the published name that a reader may take the name for, or ""
// for any other name.
func (p published) known(name []byte) string {
	var room [maxFolded]byte
	return p[string(fold(room[:0], name))]
}

var (
	envelopeNames   = published{"data": "data", "pagination": "pagination", "requestid": "request_id", "timestamp": "timestamp"}
	paginationNames = published{"total": "total", "limit": "limit", "offset": "offset", "hasmore": "hasMore"}
)
