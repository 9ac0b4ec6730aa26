/** Collects every secret that this machine's files and environment hold, and redacts them from the texts of a bundle. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createRedactor } from '../../core/redact-secrets.ts'
import { secretsOf } from '../../core/settings/redact.ts'
import { LogRedactor } from '../log-redaction.ts'
import type { BundleParts } from './bundle.ts'

/** Files whose every text value counts as a secret. */
const SECRET_FILES = ['launch.json', 'credential.json']
const SECRET_NAME = /TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL/i
/** A word such as a version or a mode is no secret, and its redaction would damage the texts. */
const SECRET_CHARS_MIN = 8

export async function createBundleRedactor(parts: BundleParts): Promise<(text: string) => string> {
  const secrets = (
    await Promise.all([secretsOfFiles(parts), secretsOfConfig(parts), tokenOfHost(parts)])
  ).flat()
  const known = [...secrets, ...secretsOfEnvironment(parts)].filter(
    ({ length }) => length >= SECRET_CHARS_MIN,
  )
  const patterns = new LogRedactor()
  const redactForms = createRedactor(known)
  return (text) => patterns.redact(redactForms(text))
}

const secretsOfEnvironment = ({ machine }: BundleParts): readonly string[] =>
  Object.entries(machine.environment).flatMap(([name, value]) =>
    value !== undefined && SECRET_NAME.test(name) ? [value] : [],
  )

/** The command took the token out of the environment. */
async function tokenOfHost({ context }: BundleParts): Promise<readonly string[]> {
  try {
    const { token } = await context.connection.address()
    return token === undefined ? [] : [token]
  } catch {
    return []
  }
}

async function secretsOfFiles({ machine }: BundleParts): Promise<readonly string[]> {
  const texts = SECRET_FILES.map((name) => readFile(join(machine.dataDir, name), 'utf8').catch(() => ''))
  return (await Promise.all(texts)).flatMap((text) => secretsIn(parse(text)))
}

/** A file that does not validate may still hold secrets that a log repeats. */
async function secretsOfConfig({ machine }: BundleParts): Promise<readonly string[]> {
  const config = await machine.config()
  if (config.ok) return secretsOf(config.value)
  return secretsIn(parse(await readFile(join(machine.dataDir, 'config.json'), 'utf8').catch(() => '')))
}

function secretsIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => {
    if (typeof inner !== 'string') return secretsIn(inner)
    return SECRET_NAME.test(key) || LOGIN_NAME.test(key) ? [inner] : []
  })
}

const LOGIN_NAME = /login|redeemed/i

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
