/** Tells lines that report an error. Standard error holds progress and warnings too, so the words decide. */

/** Words of an error anywhere in a line of standard error. */
const ERROR_WORDS =
  /\b(?:error|errors|failed|failure|fatal|panic|panicked|exception|traceback|unhandled|segmentation fault|cannot|refused|denied|not found|ERR!)\b|\b(?:[A-Z]\w*)(?:Error|Exception)\b|^\s*(?:expect\(|Expected:|Received:)/i
/** Words that begin a line of standard output, where much is said about errors that is none. */
const ERROR_BEGINNING =
  /^\s*(?:[Ee]rror(?:\[\w+\])?:|error TS\d+|fatal:|panic:|Traceback \(|npm (?:ERR!|error)|(?:Uncaught )?[A-Z]\w*(?:Error|Exception):|FAIL(?:ED)?\b|not ok \d|✕|✗|×)/
/** `0 errors`, `no error`, `errors: 0`. */
const NO_ERROR =
  /\b(?:0|no|without)\s+(?:errors?|failed|failures?)\b|\b(?:errors?|failed|failures?)[:=]\s*0\b/i

export function isErrorLine(stream: 'stdout' | 'stderr', text: string): boolean {
  const pattern = stream === 'stderr' ? ERROR_WORDS : ERROR_BEGINNING
  return pattern.test(text) && !NO_ERROR.test(text)
}

/** Programs that an agent starts write to both streams, and their output is one text. */
export const isErrorOfTool = (text: string): boolean =>
  isErrorLine('stdout', text) || isErrorLine('stderr', text)
