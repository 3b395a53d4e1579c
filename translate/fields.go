package translate

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
