/** Cures that the host writes as commands lead to places of the page. */
import { expect, test } from '@jest/globals'
import { curePlace } from '../../../web/dashboard/gates/cure-places.ts'

test.each([
  ['switchyard connect codehost', '/connect#codehost'],
  ['switchyard config set repos.web.remote OWNER/NAME', '/settings#repos.web.remote'],
  ["switchyard config set repos.a-b.trackerProject 'It'\\''s'", '/settings#repos.a-b.trackerProject'],
  ['switchyard workers provision USER@HOST', '/fleet#pair'],
  ['wait, or: switchyard workers enable kestrel', '/fleet'],
  ['switchyard resume', '/settings#policy.paused'],
  ['switchyard explain run-01a208fadc2f74968d920121598d2516', '/runs/run-01a208fadc2f74968d920121598d2516'],
  ["switchyard runs artifacts ENG-1 unpublished.bundle --to x && git fetch x 'a:b'", '/tickets/ENG-1'],
  ["switchyard start 'acme/api#3'", '/tickets/acme%2Fapi%233'],
])('%s leads to %s', (cure, to) => expect(curePlace(cure)?.to).toBe(to))

test.each([
  'name one of them in the ticket',
  'switchyard doctor',
  'sudo apt install git',
  'switchyard explain',
])('%s leads nowhere', (cure) => expect(curePlace(cure)).toBeUndefined())
