/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest program: what a start costs. */
int main(void)
{
	return 0;
}
