/**
 * Creates the example's tickets, three at a time: fix a mistake, add a feature, write a note.
 *
 * Each ticket contains the wish of a person and a block with the script of the agent. New tickets work whatever happened
 * to earlier ones: a mistake that is fixed on the base branch is not requested again, and added files carry the ticket's
 * number. Reading the base branch is the only input or output of this file.
 */

export interface ExampleTicket {
  readonly identifier: string
  readonly title: string
  readonly text: string
}

/** Reads a file of the base branch; undefined: the file does not exist. */
export type ReadBaseFile = (path: string) => Promise<string | undefined>

export const PREFIX = 'GREET-'
export const TICKETS_PER_ROUND = 3
/** The state in which the example's tickets are ready. */
export const READY_STATE = 'Todo'

interface Mistake {
  readonly title: string
  readonly why: string
  readonly path: string
  readonly before: string
  readonly after: readonly string[]
  readonly test: string
}

const MISTAKES: readonly Mistake[] = [
  {
    title: 'Greet people who gave no name',
    why: 'Somebody without a name is greeted with "Hello, !". Call them "stranger".',
    path: 'src/greet.js',
    before: "  return 'Hello, ' + name.trim() + '!'",
    after: ["  const who = name.trim() || 'stranger'", "  return 'Hello, ' + who + '!'"],
    test: testOf(
      'somebody without a name is a stranger',
      'greet',
      '../src/greet.js',
      "greet('  ')",
      'Hello, stranger!',
    ),
  },
  spellingMistake('German', 'de', 'Gutten Tag', 'Guten Tag'),
  spellingMistake('French', 'fr', 'Bonjuor', 'Bonjour'),
  spellingMistake('Italian', 'it', 'Boungiorno', 'Buongiorno'),
  spellingMistake('Dutch', 'nl', 'Godendag', 'Goedendag'),
]

/** The next three tickets. @param known identifiers or file names of the existing tickets */
export async function nextTickets(known: readonly string[], onBase: ReadBaseFile): Promise<ExampleTicket[]> {
  const first = 1 + Math.max(0, ...known.map(numberOf))
  const round = Math.floor((first - 1) / TICKETS_PER_ROUND)
  const mistake = await chooseMistake(round, onBase)
  const mend = mistake === undefined ? featureTicket(first) : fixTicket(first, mistake)
  return [mend, featureTicket(first + 1), noteTicket(first + 2)]
}

/** The text of a ticket's file. */
export function ticketFile({ title, text }: ExampleTicket): string {
  return `---\ntitle: ${title}\nstate: ${READY_STATE}\npriority: 3\nlabels: [example]\n---\n${text}`
}

function numberOf(name: string): number {
  return Number(new RegExp(`^${PREFIX}(\\d{1,9})(\\.md)?$`).exec(name)?.[1] ?? 0)
}

/** Another mistake in each round, out of those that are not fixed yet. */
async function chooseMistake(round: number, onBase: ReadBaseFile): Promise<Mistake | undefined> {
  const there = await Promise.all(
    MISTAKES.map(async (mistake) => ((await onBase(mistake.path)) ?? '').includes(mistake.before)),
  )
  const left = MISTAKES.filter((_, at) => there[at])
  const next = MISTAKES[round % MISTAKES.length]
  return next !== undefined && left.includes(next) ? next : left[0]
}

// ---- the three kinds ---------------------------------------------------------------------------------------------

function fixTicket(number: number, { title, why, path, before, after, test }: Mistake): ExampleTicket {
  const identifier = `${PREFIX}${number}`
  return ticket(identifier, title, why, [
    `say I look at ${path} and mend it.`,
    `edit ${path}`,
    ...before.split('\n').map((line) => `  - ${line}`),
    ...after.map((line) => `  + ${line}`),
    `write test/${identifier.toLowerCase()}.test.js`,
    ...indented(test),
    'run node --test',
    `commit ${title}`,
    `say Mended in ${path}; a test holds it, and all tests pass.`,
  ])
}

function featureTicket(number: number): ExampleTicket {
  const identifier = `${PREFIX}${number}`
  const name = `farewell${number}`
  const title = `Say goodbye, ${ordinal(number)} way`
  return ticket(
    identifier,
    title,
    'Greeting is not enough: we want to take leave of people, too, with a page about it.',
    [
      'say I add a module, its test and a page.',
      `write src/${name}.js`,
      '  /** A goodbye for one person. */',
      `  export function ${name}(name) {`,
      `    return \`Goodbye, \${name.trim()}${'!'.repeat(1 + (number % 3))}\``,
      '  }',
      `write test/${identifier.toLowerCase()}.test.js`,
      ...indented(
        testOf(
          'a person is taken leave of',
          name,
          `../src/${name}.js`,
          `${name}('Ada')`,
          `Goodbye, Ada${'!'.repeat(1 + (number % 3))}`,
        ),
      ),
      `write docs/${name}.md`,
      `  # ${name}`,
      '',
      `  \`${name}('Ada')\` takes leave of Ada.`,
      'run node --test',
      `artifact ${identifier.toLowerCase()}-report.md`,
      `  # ${title}`,
      '',
      `  - added: src/${name}.js, its test, docs/${name}.md`,
      '  - checked: node --test',
      `commit ${title}`,
      `say ${name} is there, with a test and a page; a report is among the artifacts.`,
    ],
  )
}

function noteTicket(number: number): ExampleTicket {
  const identifier = `${PREFIX}${number}`
  const title = 'Write down how the tests are run'
  return ticket(identifier, title, 'Whoever comes next should not have to find out again.', [
    'say I look how it is done, and note it for people and for the next run.',
    'run cat package.json',
    `write docs/notes/${identifier.toLowerCase()}.md`,
    '  # Running the tests',
    '',
    '  `node --test` in the top folder. It needs nothing to be installed.',
    'remember The tests of greeter run with "node --test"; nothing has to be installed first.',
    'subagent Read the page again: it is short and right.',
    `commit ${title}`,
    'say The page is written, and the next run on this repository will know.',
  ])
}

function ticket(identifier: string, title: string, why: string, script: readonly string[]): ExampleTicket {
  const text = [why, '', '```switchyard', ...script, '```', ''].join('\n')
  return { identifier, title, text }
}

// ---- their parts -------------------------------------------------------------------------------------------------

function spellingMistake(language: string, code: string, wrong: string, right: string): Mistake {
  return {
    title: `Spell the ${language} greeting right`,
    why: `We write "${wrong}". It is "${right}".`,
    path: `src/words/${code}.js`,
    before: `export const hello = '${wrong}'`,
    after: [`export const hello = '${right}'`],
    test: testOf(`${language} is spelt right`, 'hello', `../src/words/${code}.js`, 'hello', right),
  }
}

function testOf(title: string, name: string, from: string, call: string, expected: string): string {
  return [
    "import assert from 'node:assert/strict'",
    "import { test } from 'node:test'",
    `import { ${name} } from '${from}'`,
    '',
    `test('${title}', () => {`,
    `  assert.equal(${call}, '${expected}')`,
    '})',
  ].join('\n')
}

function indented(text: string): string[] {
  return text.split('\n').map((line) => (line === '' ? '' : `  ${line}`))
}

function ordinal(number: number): string {
  const ends: Readonly<Record<number, string>> = { 1: 'st', 2: 'nd', 3: 'rd' }
  const isTeen = Math.floor(number / 10) % 10 === 1
  return `${number}${isTeen ? 'th' : (ends[number % 10] ?? 'th')}`
}
