/** Creates the output of a client command from its options and the streams of this process. */
import type { ColorChoice } from './colors.ts'
import { Output, type PrintFormat } from './output.ts'

/** The options that every client command has. */
export interface PrintOptions {
  readonly json?: boolean | undefined
  /** The value of `-o`. */
  readonly output?: PrintFormat | undefined
  readonly quiet?: boolean | undefined
  readonly color?: ColorChoice | undefined
}

export function createOutput({ json, output, quiet, color }: PrintOptions): Output {
  const { stdout, stderr, env, platform } = process
  const exit = (code: number) => process.exit(code)
  return new Output({ stdout, stderr, env, platform, exit, quiet, color, format: json ? 'json' : output })
}
