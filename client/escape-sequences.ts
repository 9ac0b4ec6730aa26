/** Matches the escape sequences of programs, complete or at the end of a line: those that set colours, and all others. */
export const SEQUENCE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with a control character
  /\x1b(?:\[[0-9;:?<=>!]*[ -/]*(?:[@-~]|$)|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])/g
