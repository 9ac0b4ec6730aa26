/** The options `--log-level` and `--log-format`, apart from the log, whose library client commands do not load. */
import { Option } from '@commander-js/extra-typings'

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]
export const LOG_FORMATS = ['auto', 'human', 'json'] as const
export type LogFormat = (typeof LOG_FORMATS)[number]

/** The log's options of a command that runs until it is stopped. */
export interface LogChoice {
  readonly logLevel: LogLevel
  readonly logFormat: LogFormat
}

export const logLevel = () => new Option('--log-level <level>').choices(LOG_LEVELS).default('info' as const)
export const logFormat = () =>
  new Option('--log-format <format>', 'auto: for people on a terminal, JSON otherwise')
    .choices(LOG_FORMATS)
    .default('auto' as const)
