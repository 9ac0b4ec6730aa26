/** The first session of a person: the example serves in one terminal, and the commands are tried in another. */
import { hostname } from 'node:os'
import { AT_PROMPT, type RecordedSession, type RecordedStep } from './recorded-session.ts'
import type { Replacement } from './replacements.ts'

/** A line at the prompt, recorded with all that it prints. */
const shows = (types: string, caption: string): RecordedStep => ({ types, until: AT_PROMPT, caption })

const replace =
  (pattern: RegExp, by: string): Replacement =>
  (text) =>
    text.replaceAll(pattern, by)

/** Lines about the example's runs, which end in any order. */
const sortExampleLines: Replacement = (text) =>
  text.replace(/(?:^\S \S*GREET-\d .*\n?|^greeter#\d .*\n?){2,}/gm, (lines) =>
    lines.endsWith('\n') ? `${sortLines(lines.slice(0, -1))}\n` : sortLines(lines),
  )

const sortLines = (lines: string): string => lines.split('\n').sort().join('\n')

// The widths of some columns depend on this machine's name, and in a narrower terminal that moves others.
const COLUMNS = 120

const SCRIPT_LINES = [
  'A file good-night.txt wishes a good night.',
  '```switchyard',
  'write good-night.txt Good night!',
  'commit Say good night',
  'say A file says good night.',
  '```',
]

export const FIRST_SESSION: RecordedSession = {
  name: 'first-session',
  title: 'The first commands, beside the example',
  columns: [COLUMNS],
  beside: [{ types: 'npm start', until: /^Everything lies in \.data$/m }],
  replacements: [
    // Every pull request gets the number of its ticket, because they are opened in any order.
    replace(/(GREET-(\d).*greeter#)\d/g, '$1$2'),
    replace(/greeter#\d(?=.*GREET-(\d))/g, 'greeter#$1'),
    replace(/greeter#\d is merged/g, 'greeter#1 is merged'),
    replace(/\b\d\d:\d\d:\d\d\b/g, '15:32:10'),
    // A state that lasts a moment may not be reported.
    replace(
      /^15:32:10 (?:running(?:, Claude Code)?\n15:32:10 )?(?=finalizing$)/gm,
      '15:32:10 running, Claude Code\n15:32:10 ',
    ),
    replace(/\b\d{4}-\d\d-\d\d\b/g, '2026-11-22'),
    replace(/polled \d+s ago +/g, 'polled 4s ago          '),
    replace(/\b(completed in|in) [\dm.]+s\b/g, '$1 1.2s'),
    (text) =>
      text.replace(
        /^(✓ .*\S) +(completed in \S+)$/gm,
        (_, title: string, end: string) => title.padEnd(COLUMNS - end.length) + end,
      ),
    // The ages of runs, right-aligned beside their costs, and of pull requests before their tickets.
    replace(/ +AGE(?= +COST)/g, '    AGE'),
    replace(/ +(?:\d+s|\d+m\d\ds)(?= +~?\$)/g, '    12s'),
    replace(/UPDATED +TICKET$/gm, 'UPDATED  TICKET'),
    replace(/ +\d\S* ago +(?=\S+$)/gm, '  12s ago  '),
    replace(/WORKER +RUN/g, 'WORKER  RUN'),
    replace(new RegExp(`\\b${hostname()} +[0-9a-f]{12,32}`, 'g'), 'atlas   01a20393fd40'),
    replace(new RegExp(`\\b${hostname()}\\b`, 'g'), 'atlas'),
    replace(/\brun [0-9a-f]{12}\b/g, 'run 01a20393fd40'),
    replace(/\bsession [0-9a-f]{8}\b/g, 'session 5b1f6a0e'),
    // The terminal may wrap an address at any character.
    replace(/file:\S+?(?:\n\S*?)?\.(?:j\n?s\n?o\n?n|m\n?d)/g, 'file:///home/ann/…'),
    sortExampleLines,
  ],
  steps: [
    { types: 'sy() { node dist/bin/switchyard.js "$@" --data-dir .data; }', until: AT_PROMPT },
    shows('sy status', 'how things are'),
    shows('sy runs', 'the runs'),
    shows('sy logs GREET-1', 'what the agent did'),
    shows('sy explain GREET-1', 'why a run stands where it stands'),
    ...SCRIPT_LINES.map((line) => ({ types: `echo '${line}' >> words`, until: AT_PROMPT })),
    shows('cat words', 'words; the example’s agent needs a script, others read'),
    shows(
      'sy start "Say good night" --repo greeter --watch --description - < words',
      'a ticket made of words',
    ),
    shows('sy pulls', 'the pull requests'),
    shows('sy pulls merge GREET-1', 'merging one'),
    shows('sy runs show GREET-1', 'one run in full'),
    shows('sy costs', 'what it has cost'),
  ],
}
