/** The bundle of the simulation holds such a file as its text. */
declare module '*.jsonl' {
  const text: string
  export default text
}
