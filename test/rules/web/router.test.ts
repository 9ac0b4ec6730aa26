/** The addresses of pages. The browser's part of the router is tested in a browser. */
import { expect, test } from '@jest/globals'
import { matchPath } from '../../../web/match-path.ts'

test.each([
  ['/', '/', {}],
  ['/runs', '/runs/', {}],
  ['/runs/:id', '/runs/run-1', { id: 'run-1' }],
  ['/pulls/:repo/:number', '/pulls/acme%2Fapi/482', { repo: 'acme/api', number: '482' }],
  ['/runs/:id', '/runs', undefined],
  ['/runs/:id', '/runs/%E0%A4%A', undefined],
  ['/runs', '/fleet', undefined],
])('%s fits %s', (pattern, path, params) => expect(matchPath(pattern, path)).toEqual(params))
