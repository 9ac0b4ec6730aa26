/**
 * Opens the log: readable lines on a terminal, JSON otherwise, with secrets redacted in both.
 */
import { createRequire } from 'node:module'
import { Writable } from 'node:stream'
import pino from 'pino'
import type { Log } from '../../core/ports/log.ts'
import type { LogFormat, LogLevel } from './log-options.ts'
import type { LogRedactor } from './log-redaction.ts'

export interface LogOptions {
  readonly level: LogLevel
  readonly format: LogFormat
  readonly redactor: LogRedactor
  readonly out?: NodeJS.WriteStream
}

export function openLog({ level, format, redactor, out = process.stderr }: LogOptions): Log {
  const human = format === 'human' || (format === 'auto' && out.isTTY)
  const raw = { write: (line: string) => void out.write(redactor.redact(line)) }
  const sink = human ? createPrettyStream(out, redactor) : raw
  const logger = pino({ level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime }, sink)
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
  }
}

/** pino-pretty is loaded only when needed, because processes without it start faster. */
function createPrettyStream(out: NodeJS.WriteStream, redactor: LogRedactor) {
  const pretty: typeof import('pino-pretty') = createRequire(import.meta.url)('pino-pretty')
  return pretty({
    destination: createRedactingStream(out, redactor),
    sync: true,
    colorize: out.isTTY && !process.env.NO_COLOR,
    // The message of a transition says all that its fields say.
    ignore: 'pid,hostname,transition',
    translateTime: 'SYS:HH:MM:ss',
  })
}

/** A stream for pino-pretty that redacts every chunk. */
function createRedactingStream(out: NodeJS.WriteStream, redactor: LogRedactor) {
  return new Writable({
    write(chunk, _encoding, done) {
      out.write(redactor.redact(String(chunk)))
      done()
    },
  })
}
