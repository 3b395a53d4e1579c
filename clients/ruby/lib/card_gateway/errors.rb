# frozen_string_literal: true

require "json"

module CardGateway
  # Any failure of a request.
  class Error < StandardError; end

  # The request cannot be signed; nothing was sent. The message says what to do.
  class UnsignableError < Error; end

  # The answer leads elsewhere, and was not followed: a signature is for one
  # target of one host.
  class RedirectError < Error
    attr_reader :status, :location

    def initialize(status, location)
      @status = status
      @location = location
      super("the server redirects to #{location.inspect} (#{status}), which is not followed; correct the base URL")
    end
  end

  # There was no whole answer. sent? is whether the server may have received the
  # request, attempts how many were made.
  class ConnectionError < Error
    attr_reader :attempts

    def initialize(sent, attempts, trouble)
      @sent = sent
      @attempts = attempts
      state = sent ? "the server may have received it" : "nothing was sent"
      super("no answer after #{attempts} attempts, #{state}: #{trouble.message}")
    end

    def sent?
      @sent
    end
  end

  # The gateway has not signed the answer for this request, with verify_answers.
  # The request may have been executed. unsigned? is whether the answer has no
  # signature at all, as refusals with 400 and 401; status and request_id are as
  # they were received.
  class UnprovenError < Error
    attr_reader :status, :request_id

    def initialize(status, headers, reason, unsigned: false)
      @status = status
      @request_id = headers["x-request-id"] || ""
      @unsigned = unsigned
      super("the answer #{status} is not proven to be the gateway's (request id #{request_id}): #{reason}")
    end

    def unsigned?
      @unsigned
    end
  end

  # An answer with a status of 400 or more, from the gateway or the issuer. code
  # and reason are those of its body, details its list of hashes with "field",
  # "finding" and "message". retry_after is in seconds, or nil.
  class ApiError < Error
    attr_reader :status, :code, :reason, :details, :request_id, :retry_after, :body

    def initialize(answer)
      fields = ApiError.fields(answer.body)
      @status = answer.status
      @code = fields["code"].is_a?(String) ? fields["code"] : ""
      @reason = fields["message"].is_a?(String) ? fields["message"] : "the request was refused"
      @details = fields["details"].is_a?(Array) ? fields["details"] : []
      @request_id = answer.headers["x-request-id"] || ""
      @retry_after = Policy.retry_after(answer.headers)
      @body = answer.body
      super("#{status} #{code}: #{reason} (request id #{request_id})")
    end

    # Returns code, message and details of an error body: the gateway has them in
    # "error", some issuers at the top level.
    def self.fields(body)
      document = JSON.parse(body.dup.force_encoding(Encoding::UTF_8))
      inner = document.is_a?(Hash) ? document["error"] : nil
      return inner if inner.is_a?(Hash)

      document.is_a?(Hash) ? document : {}
    rescue JSON::ParserError, EncodingError
      {}
    end
  end
end
