# frozen_string_literal: true

require_relative "card_gateway/version"
require_relative "card_gateway/errors"
require_relative "card_gateway/signer"
require_relative "card_gateway/policy"
require_relative "card_gateway/client"

# Calls the card API through Card Gateway. Client needs the standard library
# alone; "card_gateway/faraday" is for programs that use Faraday already.
module CardGateway
end
