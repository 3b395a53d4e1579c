# frozen_string_literal: true

module CardGateway
  VERSION = "0.2.0"
end
