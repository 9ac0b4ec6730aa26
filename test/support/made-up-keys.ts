/**
 * Keys that nobody has issued, in the forms of their issuers. They are put together here, so that no file of this
 * repository holds what looks like a key.
 */
import { generateKeyPairSync } from 'node:crypto'

const LETTERS = 'Q7mZr2KxV9bTn4LdW8sYf3HcJ6pGq5'
/** The CRC-32 of LETTERS, in base 62. */
const CHECKSUM = '2V9PGe'
const drawn = (chars: number): string => LETTERS.repeat(4).slice(0, chars)

export const GITHUB_TOKEN = withChecksum('ghp_')
export const FINE_GRAINED_TOKEN = `github_${'pat'}_${drawn(22)}_${drawn(59)}`
export const AWS_KEY = `AKIA${'Q7MZR2KXV5BTN4LD'}`
const AWS_SECRET = `${drawn(20)}/${drawn(19)}`

export const PRIVATE_KEY: string = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
}).privateKey

export const KEYS = {
  'a private key': PRIVATE_KEY,
  'a GitHub token': GITHUB_TOKEN,
  'an npm token': withChecksum('npm_'),
  'an AWS access key': `${AWS_KEY}, secret: ${AWS_SECRET}`,
  'a Slack token': `xoxb-${'73519028463'}-${'80246913575'}-${drawn(24)}`,
  'a Slack webhook': `hooks.slack.com/services/${'T0QZRKXVB'}/${'B0TNLDWSY'}/${drawn(24)}`,
  'a live Stripe key': `sk_live_${drawn(24)}`,
  'an Anthropic key': `sk-ant-${'api03'}-${drawn(93)}AA`,
  'an OpenAI key': `sk-proj-${drawn(30)}${'T3Blbk'}FJ${drawn(30)}`,
  'a Google key': `AIza${drawn(35)}`,
} as const

/** All such tokens have the same body. */
function withChecksum(prefix: string): string {
  return `${prefix}${LETTERS}${CHECKSUM}`
}
