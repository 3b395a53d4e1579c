# frozen_string_literal: true

require "json"
require "net/http/status"
require "time"

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

  # Names one call: what was signed once, and is accepted at most once. timestamp is
  # in Unix seconds.
  Call = Struct.new(:nonce, :timestamp) do
    # Returns when nothing can execute the call any more, in Unix seconds.
    def until
      timestamp + 360
    end
  end

  # The gateway had accepted the call before: an earlier attempt has arrived, and
  # its answer was lost. The issuer has executed it at most once, perhaps not: read
  # what it should have made. Do not send it as a new call. perhaps_by_us? is
  # whether an attempt of this request was perhaps what took it.
  class TakenError < Error
    attr_reader :call, :request_id

    def initialize(call, request_id, perhaps_by_us)
      @call = call
      @request_id = request_id
      @perhaps_by_us = perhaps_by_us
      super("the call #{call.nonce} was taken before, and its answer is lost; read what it should have made (request id #{request_id})")
    end

    def perhaps_by_us?
      @perhaps_by_us
    end
  end

  # It is not known whether the call was executed, or will be before call.until.
  # Client#close_call settles it. cause is the error of the last attempt, of which
  # attempts were made.
  class UnknownError < Error
    attr_reader :call, :attempts

    def initialize(call, attempts, why)
      @call = call
      @attempts = attempts
      super("it is not known whether the call #{call.nonce} was executed, and it may be until #{Time.at(call.until).utc.iso8601}; " \
            "close it, or read what it should have made: after #{attempts} attempts: #{why}")
    end
  end

  # An answer with a status of 400 or more, from the gateway or the issuer. code
  # and reason are those of its body, details its list of hashes with "field",
  # "finding" and "message". retry_after is in seconds, or nil. not_executed? is
  # whether the gateway says that it has accepted the request, and no issuer has
  # seen it, so that it never is executed.
  class ApiError < Error
    attr_reader :status, :code, :reason, :details, :request_id, :retry_after, :body

    def initialize(answer)
      fields = ApiError.fields(answer.body)
      @status = answer.status
      code, message, *problem = fields.values_at("code", "message", "title", "detail").map { |text| text if text.is_a?(String) && text != "" }
      problem = problem.compact.join(": ") # RFC 9457
      @code = code || ""
      @reason = message || (problem if problem != "") || Net::HTTP::STATUS_CODES.fetch(status, "refused")
      details = fields["details"] || fields["errors"]
      @details = details.is_a?(Array) ? details : []
      @not_executed = ApiError.not_executed?(fields)
      @request_id = answer.headers["x-request-id"] || ""
      @retry_after = Policy.retry_after(answer.headers)
      @body = answer.body
      super("#{status} #{code}: #{reason} (request id #{request_id})")
    end

    def not_executed?
      @not_executed
    end

    # Whether the fields of an error body say that the request is certainly not
    # executed.
    def self.not_executed?(fields)
      fields["accepted"] == true && fields["forwarded"] == false
    end

    # Returns code, message and details of an error body: the gateway has them in
    # "error", some issuers at the top level.
    def self.fields(body)
      document = JSON.parse(body.dup.force_encoding(Encoding::UTF_8))
      inner = document.is_a?(Hash) ? document["error"] : nil
      return inner if inner.is_a?(Hash)

      document.is_a?(Hash) ? document.reject { |name, _| %w[accepted forwarded].include?(name) } : {} # the gateway's words alone
    rescue JSON::ParserError, EncodingError
      {}
    end
  end
end
