/** The options of every program that writes a log. */
import { Option } from '@commander-js/extra-typings'
import { LOG_FORMATS, LOG_LEVELS } from '../log-options.ts'

export const logLevel = () => new Option('--log-level <level>').choices(LOG_LEVELS).default('info' as const)
export const logFormat = () =>
  new Option('--log-format <format>', 'auto: for people on a terminal, JSON otherwise')
    .choices(LOG_FORMATS)
    .default('auto' as const)
