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
  readonly dataDir?: string | undefined
}

export function createOutput({ json, output, quiet, color, dataDir }: PrintOptions): Output {
  const { stdout, stderr, env, platform } = process
  const exit = (code: number) => process.exit(code)
  const format = json ? 'json' : output
  return new Output({ stdout, stderr, env, platform, exit, quiet, color, dataDir, format })
}
