/**
 * Stands in for `node:child_process` in commander, which loads it at every start for commands that are programs of
 * their own. There are none here.
 */
module.exports = {}
