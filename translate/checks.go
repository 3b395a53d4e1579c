package translate

// A check returns the fault of a value's characters, or "". The text continues
// a sentence that begins with the field's name.

func checkType(_ Variant, value []byte) string {
	if isIndividual(value) || isBusiness(value) {
		return ""
	}
	return "must be individual or business"
}

func isIndividual(value []byte) bool { return string(value) == "individual" }
func isBusiness(value []byte) bool   { return string(value) == "business" }

// checkPhoneCode allows a plus and 1 to 6 digits, the first not 0. Country codes
// have up to 3 digits. Some are written with an area code, such as +1684.
func checkPhoneCode(_ Variant, value []byte) string {
	if len(value) < 2 || len(value) > 7 || value[0] != '+' || value[1] == '0' || !all(value[1:], digit) {
		return "must be an international dialling code with a leading plus, such as +44"
	}
	return ""
}

// checkPhoneNumber allows digits, at least one, and the characters that people
// write between them.
func checkPhoneNumber(_ Variant, value []byte) string {
	if !all(value, digit, spacer) || all(value, spacer) {
		return "must be a number without country code, in digits"
	}
	return ""
}

func checkCountry(_ Variant, value []byte) string {
	if !validCountry(value) {
		return "must be an ISO 3166-1 alpha-2 country code in upper case, such as GB"
	}
	return ""
}

func checkGender(v Variant, value []byte) string {
	if v == VariantA {
		return ""
	}
	switch string(value) {
	case "male", "female", "other":
		return ""
	}
	return "must be male, female or other"
}

func checkDate(v Variant, value []byte) string {
	if v == VariantA {
		if !validDateTime(value) {
			return "must be an ISO 8601 date-time of a day that exists, such as 1990-04-12T00:00:00Z"
		}
		return ""
	}
	if !validDate(value) {
		return "must be a date that exists, as YYYY-MM-DD"
	}
	return ""
}
