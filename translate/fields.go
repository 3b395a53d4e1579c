package translate

// A place is where in a customer a field stands.
type place uint8

const (
	top place = iota
	inBusiness
	inAddress
	placeCount
)

// placeNames lead the names of fields that stand in an inner object.
var placeNames = [placeCount]string{inBusiness: "business.", inAddress: "address."}

// A need is whether a variant wants a field in a create request.
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
	// individualOrNull: a string or null, and for individual customers the
	// name must be there.
	individualOrNull
	// business: a string or null, and for business customers a string.
	business
)

// A field is one field of the customer in all its spellings.
type field struct {
	in    place
	snake string
	camel string
	// requestC is the name in requests of variant C where it differs.
	requestC string
	// need is what each variant asks of the field, by [Variant].
	need [4]need
	max  int  // length in characters; 0: no limit
	date bool // a calendar day: translated by value too
	// opens is the place of the known fields inside; top: there are none.
	opens place
	// check returns what is wrong with a value, or "".
	check func(v Variant, value []byte) string
}

// fields is the one table that drives names, validation and dates in all
// directions. Fields whose constraints the interface does not publish are
// named only. To add a field is to add a line.
var fields = [...]field{
	typeField: {snake: "type", camel: "type", need: [4]need{A: always, B: always, C: always}, check: checkType},
	{snake: "first_name", camel: "firstName", need: [4]need{A: always, B: optional, C: individualOrNull}, max: 100},
	{snake: "middle_name", camel: "middleName"},
	{snake: "last_name", camel: "lastName", need: [4]need{A: always, B: optional, C: individualOrNull}, max: 100},
	{snake: "email", camel: "email", need: [4]need{A: always, B: always, C: always}, check: checkEmail},
	{snake: "phone_code", camel: "phoneCode", need: [4]need{A: always, B: always, C: always}, check: checkPhoneCode},
	{snake: "phone_number", camel: "phoneNumber", need: [4]need{A: always, B: always, C: always}, check: checkPhoneNumber},
	{snake: "country", camel: "country", requestC: "countryIsoTwo", need: [4]need{A: always, B: always, C: always}, check: checkCountry},
	{snake: "state", camel: "state", need: [4]need{A: optional, B: optional, C: optional}},
	{snake: "business_name", camel: "businessName", need: [4]need{A: optional, B: business, C: business}},
	{snake: "date_of_birth", camel: "dateOfBirth", need: [4]need{A: individual, B: individual, C: individual}, date: true, check: checkDate},
	{snake: "gender", camel: "gender", need: [4]need{A: individual, B: individual, C: individual}, check: checkGender},
	{snake: "external_reference", camel: "externalReference", need: [4]need{A: optional, B: optional, C: optional}, max: 200},

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

// typeField is the index of the field that tells individuals from businesses.
const typeField = 0

// name returns the field's name in the form.
func (f *field) name(form Form) string {
	if form == CamelCase {
		return f.camel
	}
	return f.snake
}

// requestName returns the name that a client of the variant writes, led by
// the inner object's.
func (f *field) requestName(v Variant) string {
	name := f.name(v.form())
	if v == C && f.requestC != "" {
		name = f.requestC
	}
	return placeNames[f.in] + name
}

// variants is a set of variants; bit n stands for Variant n.
type variants uint8

const allVariants = variants(1<<A | 1<<B | 1<<C)

func (s variants) has(v Variant) bool { return s&(1<<v) != 0 }

// A spelling is one name under which a field may be written, and the variants
// whose requests write it so.
type spelling struct {
	field int
	text  string
	of    variants
}

// spellings finds the spelling of a name, by place.
var spellings = func() (found [placeCount]map[string]*spelling) {
	for i := range found {
		found[i] = make(map[string]*spelling)
	}
	for i := range fields {
		f := &fields[i]
		camel := variants(1<<B | 1<<C)
		if f.requestC != "" {
			camel = 1 << B
			addSpelling(found[f.in], i, f.requestC, 1<<C)
		}
		addSpelling(found[f.in], i, f.camel, camel)
		addSpelling(found[f.in], i, f.snake, 1<<A)
	}
	return found
}()

func addSpelling(names map[string]*spelling, field int, text string, of variants) {
	if s := names[text]; s != nil {
		s.of |= of
		return
	}
	names[text] = &spelling{field: field, text: text, of: of}
}
